"""Runs the supervisor of agents' pods for real, as the first process of a namespace without a
network."""

import contextlib
import functools
import hashlib
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import trustme

from tests.support.paths import PROJECT
from tests.support.supervisor_client import SupervisorClient

PROGRAM = PROJECT / ".supervisor" / "agentjobs-supervisor"
PORT = 8463
WAIT_SECONDS = 60
ORPHAN_SECONDS = 60.0
# Nothing of the sandbox but its namespaces: those are the container runtime's part.
_OPTIONS = (
    *(
        "bwrap",
        "--die-with-parent",
        "--unshare-pid",
        "--as-pid-1",
        "--unshare-net",
        "--unshare-ipc",
    ),
    *("--unshare-user", "--uid", "10001", "--gid", "10001", "--cap-drop", "ALL"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"),
)
_OWN_MOUNTS = ("proc", "dev", "sys", "tmp", "run", "workspace")
_CONNECTOR = Path(__file__).with_name("supervisor_connector.py")


class RunningSupervisor:
    """Its pod, with the directories of a worker's run, and volumes that its image declares."""

    def __init__(
        self, base: Path, volumes: Mapping[str, Path] | None = None, **config: Any
    ) -> None:
        self.workspace = base / "workspace"
        self.run_dir = base / "run"
        for directory in (self.workspace, self.run_dir / "report"):
            directory.mkdir(parents=True)
        self.token = secrets.token_urlsafe(32)
        certificate = _certificate()
        config = {
            "certificate": b"".join(b.bytes() for b in certificate.cert_chain_pems).decode(),
            "key": certificate.private_key_pem.bytes().decode(),
            "token_sha256": hashlib.sha256(self.token.encode()).hexdigest(),
            "port": PORT,
            "orphan_seconds": ORPHAN_SECONDS,
            "directories": ["/workspace", "/run/agentjobs"],
            **config,
        }
        information, written = os.pipe()
        self.process = subprocess.Popen(
            [
                *_OPTIONS,
                *_machine(),
                *("--bind", str(self.workspace), "/workspace"),
                *("--bind", str(self.run_dir), "/run/agentjobs"),
                *("--ro-bind", str(PROGRAM), "/run/supervisor"),
                *(
                    word
                    for inside, path in (volumes or {}).items()
                    for word in ("--bind", str(path), inside)
                ),
                *("--info-fd", str(written), "/run/supervisor"),
            ],
            stdin=subprocess.DEVNULL,
            env={"AGENTJOBS_SUPERVISOR": json.dumps(config)},
            pass_fds=(written,),
        )
        os.close(written)
        with os.fdopen(information) as file:
            self.pid: int = json.load(file)["child-pid"]

    def connect(
        self,
        output_from: int = 0,
        *,
        token: str | None = None,
        acknowledges: bool = True,
        opened: socket.socket | None = None,
    ) -> SupervisorClient:
        connection = self.open_tls(opened)
        try:
            return SupervisorClient(
                self.open_tls,
                connection,
                token or self.token,
                output_from,
                acknowledges=acknowledges,
            )
        except OSError:
            connection.close()
            raise

    def open_tls(self, opened: socket.socket | None = None) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _authority().configure_trust(context)
        opened = opened or self.open_socket()
        connection = context.wrap_socket(opened, server_hostname="supervisor")
        connection.settimeout(WAIT_SECONDS)
        return connection

    def open_socket(self, port: int = PORT) -> socket.socket:
        return self.open_sockets(1, port)[0]

    def open_sockets(
        self, count: int, port: int = PORT, source: str = "127.0.0.1"
    ) -> list[socket.socket]:
        """Connected to a port inside the pod, from an address of its loopback interface."""
        ours, theirs = socket.socketpair()
        namespace = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        with ours, theirs:
            subprocess.run(
                [
                    *(sys.executable, "-I", "-S", str(_CONNECTOR)),
                    *(str(port), str(theirs.fileno()), source, str(count)),
                ],
                stdin=namespace,
                pass_fds=(theirs.fileno(),),
                check=True,
            )
            os.close(namespace)
            _, descriptors, _, _ = socket.recv_fds(ours, 1, count)
        connections = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        for connection in connections:
            connection.settimeout(WAIT_SECONDS)
        return connections

    def wait(self) -> int:
        return self.process.wait(WAIT_SECONDS)

    def processes(self) -> list[str]:
        """Names of all processes of the pod but the first."""
        status = Path(f"/proc/{self.pid}/root/proc").iterdir()
        return [
            (path / "comm").read_text().strip()
            for path in status
            if path.name.isdigit() and path.name != "1"
        ]


@functools.cache
def _authority() -> trustme.CA:
    return trustme.CA()


@functools.cache
def _certificate() -> trustme.LeafCert:
    return _authority().issue_cert("supervisor")


def _machine() -> Iterator[str]:
    for path in Path("/").iterdir():
        if path.name not in _OWN_MOUNTS:
            yield from ("--ro-bind", str(path), str(path))


@contextlib.contextmanager
def running_supervisor(
    base: Path, volumes: Mapping[str, Path] | None = None, **config: Any
) -> Iterator[RunningSupervisor]:
    supervisor = RunningSupervisor(base, volumes, **config)
    try:
        yield supervisor
    finally:
        supervisor.process.send_signal(signal.SIGKILL)
        supervisor.process.wait()


def command(*argv: str, **changes: Any) -> dict[str, Any]:
    """The fields of `prepare`."""
    fields: dict[str, Any] = {
        "argv": argv,
        "environment": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"},
        "directory": "/workspace",
        "seccomp": None,
        "nice": 10,
        "oom_score_adj": 500,
        "ports": [],
        "limits": {},
    }
    return {**fields, **changes}


def shell(script: str, *arguments: str, **changes: Any) -> dict[str, Any]:
    return command("sh", "-c", script, "sh", *arguments, **changes)


def python(script: str, *arguments: str, **changes: Any) -> dict[str, Any]:
    return command("python3", "-I", "-S", "-c", script, *arguments, **changes)
