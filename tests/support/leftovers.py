"""Finds what agents left on the machine: processes, mounts, cgroups and files.

Excludes what waits for the next job: copies that contain only the repository, and sandboxes in
which nothing has run.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Traces:
    """`mark` is in the environment of every agent; only agents have `uids`.

    `known` are the names in the root of the repository, `outside` is the service's temporary
    directory.
    """

    service_pid: int
    data_dir: Path
    outside: Path
    mark: bytes
    uids: range
    known: frozenset[str]
    # Commands of the sandbox itself that may end a moment after the job.
    frame: tuple[bytes, ...] = ()

    def all(self) -> list[str]:
        leftovers, waiting_sandboxes = self._processes()
        cgroups = list(self._cgroups())
        # Last: a directory is created before the sandbox that waits for a job with it.
        spares = sum(map(_is_spare, self._session_directories()))
        cgroup_names = {path.name for path in cgroups}
        return [
            *(f"process {command!r}" for command in leftovers),
            *(f"sandbox {pid}" for pid in waiting_sandboxes[spares:]),
            *(f"mount in {path}" for path in self._mounts()),
            *(f"cgroup {name}" for name in sorted(cgroup_names)[spares:]),
            *(f"directory {path}" for path in self._directories()),
            *(f"temporary {path}" for path in self.outside.iterdir()),
        ]

    def _processes(self) -> tuple[list[bytes], list[int]]:
        """Commands of agents, and the pids of sandboxes whose processes all wait for a command."""
        processes = _read_processes()
        sandboxes: dict[int, list[_Process]] = {}
        others = []
        for process in processes.values():
            sandbox = self._sandbox_of(process, processes)
            if sandbox is not None:
                sandboxes.setdefault(sandbox, []).append(process)
            elif process.command.startswith(self.frame):
                continue
            elif process.uid in self.uids or self.mark in process.environment:
                others.append(process.command)
        waiting = [pid for pid, members in sandboxes.items() if all(map(self._waits, members))]
        for pid in sandboxes.keys() - set(waiting):
            others += [member.command for member in sandboxes[pid]]
        return others, waiting

    def _sandbox_of(self, process: "_Process", processes: dict[int, "_Process"]) -> int | None:
        while process.parent != self.service_pid:
            if process.parent not in processes:
                return None
            process = processes[process.parent]
        return process.pid if b"bwrap" in process.command else None

    def _waits(self, process: "_Process") -> bool:
        """A shell with arguments is an agent."""
        program, *arguments = process.command.rstrip(b"\0").split(b"\0")
        name = program.rpartition(b"/")[2]
        is_preparing = name in {b"bwrap", b"setpriv"} or (name == b"sh" and not arguments)
        return is_preparing and self.mark not in process.environment

    def _mounts(self) -> Iterator[str]:
        for pid in ("self", self.service_pid):
            path = Path(f"/proc/{pid}/mountinfo")
            if str(self.data_dir) in path.read_text():
                yield str(path)

    def _cgroups(self) -> Iterator[Path]:
        # Not `rglob`: other services remove their groups meanwhile, which ends it with an error.
        for directory, names, _ in os.walk("/sys/fs/cgroup"):
            yield from (Path(directory, name) for name in names if f"-{self.service_pid}-" in name)

    def _session_directories(self) -> Iterator[Path]:
        return self.data_dir.glob("workspaces/sessions/*/*")

    def _directories(self) -> Iterator[Path]:
        yield from self.data_dir.glob("mirrors/*/incoming-*")
        for directory in self._session_directories():
            if not _is_spare(directory):
                yield from _others(directory, frozenset({"tree", "index"}))
                yield from _others(directory / "tree", self.known)


@dataclass(frozen=True)
class _Process:
    pid: int
    command: bytes
    environment: bytes
    uid: int
    parent: int

    @classmethod
    def read(cls, entry: Path) -> "_Process":
        status = (entry / "status").read_bytes()

        def field(name: bytes) -> bytes:
            return status.partition(name + b":\t")[2].split(maxsplit=1)[0]

        return cls(
            int(entry.name),
            (entry / "cmdline").read_bytes() or field(b"Name"),
            _environment(entry),
            int(field(b"\nUid")),
            int(field(b"\nPPid")),
        )


def _read_processes() -> dict[int, _Process]:
    processes = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            processes[int(entry.name)] = _Process.read(entry)
        except OSError:
            continue  # ended, or not readable
    return processes


def _environment(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except PermissionError:
        return b""  # another user's; agents of this test are not


def _is_spare(directory: Path) -> bool:
    """Whether a sandbox waits with this directory. It may just be created."""
    return (
        _names(directory) <= {"tree", "run"}
        and _names(directory / "run") <= {"artifacts", "report"}
        and not any(_names(directory / name) for name in ("tree", "run/artifacts", "run/report"))
    )


def _names(directory: Path) -> set[str]:
    return {path.name for path in _others(directory, frozenset())}


def _others(directory: Path, known: frozenset[str]) -> Iterator[Path]:
    if directory.is_dir():
        yield from (path for path in directory.iterdir() if path.name not in known)
