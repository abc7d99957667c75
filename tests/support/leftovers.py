"""Finds what agents left on the machine: processes, mounts, cgroups and files."""

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

    def all(self) -> list[str]:
        return [
            *(f"process {command!r}" for command in self._processes()),
            *(f"mount in {path}" for path in self._mounts()),
            *(f"cgroup {path}" for path in self._cgroups()),
            *(f"directory {path}" for path in self._directories()),
            *(f"temporary {path}" for path in self.outside.iterdir()),
        ]

    def _processes(self) -> Iterator[bytes]:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                process = _Process.read(entry)
            except OSError:
                continue  # ended, or not readable
            is_sandbox = process.parent == self.service_pid and b"bwrap" in process.command
            if is_sandbox or process.uid in self.uids or self.mark in process.environment:
                yield process.command

    def _mounts(self) -> Iterator[str]:
        for pid in ("self", self.service_pid):
            path = Path(f"/proc/{pid}/mountinfo")
            if str(self.data_dir) in path.read_text():
                yield str(path)

    def _cgroups(self) -> Iterator[Path]:
        # Not `rglob`: other services remove their groups meanwhile, which ends it with an error.
        for directory, names, _ in os.walk("/sys/fs/cgroup"):
            yield from (Path(directory, name) for name in names if f"-{self.service_pid}-" in name)

    def _directories(self) -> Iterator[Path]:
        """Excludes copies for the next job, which contain only the repository."""
        yield from self.data_dir.glob("mirrors/*/incoming-*")
        for directory in self.data_dir.glob("workspaces/sessions/*/*"):
            yield from _others(directory, frozenset({"tree", "index"}))
            yield from _others(directory / "tree", self.known)


@dataclass(frozen=True)
class _Process:
    command: bytes
    environment: bytes
    uid: int
    parent: int

    @classmethod
    def read(cls, entry: Path) -> "_Process":
        lines = (entry / "status").read_bytes().splitlines()
        status = dict(line.split(b":\t", 1) for line in lines if b":\t" in line)
        return cls(
            (entry / "cmdline").read_bytes() or status[b"Name"],
            _environment(entry),
            int(status[b"Uid"].split()[0]),
            int(status[b"PPid"]),
        )


def _environment(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except PermissionError:
        return b""  # another user's; agents of this test are not


def _others(directory: Path, known: frozenset[str]) -> Iterator[Path]:
    if directory.is_dir():
        yield from (path for path in directory.iterdir() if path.name not in known)
