"""One container of a pod: a real process in namespaces of its own, with this machine's programs."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from agentjobs_worker.sandbox.mounts import PATH, account_files, hosts_file, system_view
from agentjobs_worker.sandbox.ports import open_network
from tests.support.kubernetes.objects import Object

SUPERVISOR = Path(__file__).parents[3] / ".supervisor" / "agentjobs-supervisor"
_SUPERVISOR_INSIDE = "/usr/local/bin/agentjobs-supervisor"
_MAX_LOG_BYTES = 1024**2


class ContainerProcess:
    """`volumes` maps names to directories; a volume that is missing there lives in memory."""

    def __init__(self, pod: Object, container: Object, volumes: Mapping[str, Path]) -> None:
        self._spec: Object = pod["spec"]
        self._hostname: str = pod["metadata"]["name"]
        self._container = container
        self._volumes = volumes
        self._security = {
            **self._spec.get("securityContext", {}),
            **container.get("securityContext", {}),
        }
        self.log = b""
        self._pid = 0

    async def start(self) -> int:
        """Returns a descriptor of its network namespace. Raises OSError."""
        variables = {each["name"]: each["value"] for each in self._container.get("env", ())}
        information, information_end = os.pipe()
        blocked, release = os.pipe()
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, information)
            stack.callback(os.close, release)
            with contextlib.ExitStack() as passed:
                descriptors = [information_end, blocked]
                for descriptor in descriptors:
                    passed.callback(os.close, descriptor)
                files = list(self._files(descriptors, passed))
                self._process = await asyncio.create_subprocess_exec(
                    "bwrap",
                    *("--info-fd", str(information_end), "--block-fd", str(blocked)),
                    *self._options(files),
                    *("--", *self._drop_privileges(), *self._container["command"]),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    env={"PATH": PATH, **variables},
                    pass_fds=descriptors,
                    start_new_session=True,
                )
            self._reading = asyncio.ensure_future(self._read_log())
            text = await asyncio.to_thread(_read_document, information)
            if not text:
                await self._reading
                raise OSError(f"bwrap did not start: {self.log.decode()}")
            self._pid = json.loads(text)["child-pid"]
            # The program may forbid to read it later.
            network = open_network(self._pid)
            os.write(release, b"x")
        return network

    async def wait(self) -> int:
        """Until no process of it is alive."""
        code = await self._process.wait()
        await self._reading
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        """The first process; the kernel kills the others before bwrap ends."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    async def _read_log(self) -> None:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(65_536):
            self.log = (self.log + chunk)[-_MAX_LOG_BYTES:]

    @property
    def _uid(self) -> int:
        return int(self._security.get("runAsUser", 65_534))

    def _drop_privileges(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        ids = ("--reuid", str(self._uid), "--regid", str(self._uid), "--clear-groups")
        none = ("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--pdeathsig", "KILL")
        return ["setpriv", *ids, *none, "--"]

    def _options(self, files: list[str]) -> list[str]:
        namespaces = [f"--unshare-{name}" for name in ("pid", "net", "ipc", "uts")]
        user = ["--unshare-user", "--uid", str(self._uid), "--gid", str(self._uid)]
        is_read_only = self._security.get("readOnlyRootFilesystem")
        return [
            *(*namespaces, "--as-pid-1", "--die-with-parent", "--hostname", self._hostname),
            *(user if os.geteuid() != 0 else ()),
            *system_view().options,
            *("--tmpfs", "/usr/local/bin", "--ro-bind-try", str(SUPERVISOR), _SUPERVISOR_INSIDE),
            *files,
            *(option for mount in self._mounts() for option in mount),
            *(("--remount-ro", "/") if is_read_only else ()),
            *("--chdir", self._container.get("workingDir", "/")),
        ]

    def _mounts(self) -> Iterator[tuple[str, ...]]:
        volumes = {volume["name"]: volume for volume in self._spec.get("volumes", ())}
        for mount in sorted(
            self._container.get("volumeMounts", ()), key=lambda mount: str(mount["mountPath"])
        ):
            path, name = mount["mountPath"], mount["name"]
            if name in self._volumes:
                source = self._volumes[name] / mount.get("subPath", "")
                # Otherwise only root can enter the parent directory that bwrap creates.
                yield ("--dir", str(PurePosixPath(path).parent))
                yield ("--ro-bind" if mount.get("readOnly") else "--bind", str(source), path)
                continue
            limit = volumes[name]["emptyDir"].get("sizeLimit")
            size = ("--size", limit) if limit else ()
            yield ("--dir", str(PurePosixPath(path).parent))
            yield ("--perms", "0777", *size, "--tmpfs", path)

    def _files(self, descriptors: list[int], stack: contextlib.ExitStack) -> Iterator[str]:
        hosts = {
            name: alias["ip"]
            for alias in self._spec.get("hostAliases", ())
            for name in alias["hostnames"]
        }
        contents = {
            **system_view().files,
            **account_files(self._uid, self._uid),
            "/etc/hosts": hosts_file(hosts),
        }
        for path, content in contents.items():
            descriptor = os.memfd_create("file")
            stack.callback(os.close, descriptor)
            os.write(descriptor, content)
            os.lseek(descriptor, 0, os.SEEK_SET)
            descriptors.append(descriptor)
            yield from ("--perms", "0444", "--file", str(descriptor), path)


def _read_document(descriptor: int) -> bytes:
    """bwrap writes it in several parts. Empty if bwrap failed."""
    text = b""
    while not text.rstrip().endswith(b"}"):
        if not (part := os.read(descriptor, 4096)):
            return b""
        text += part
    return text
