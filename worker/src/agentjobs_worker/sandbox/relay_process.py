"""The worker's side of `port_relay`: starts it, asks it for ports and passes sockets to it."""

import asyncio
import contextlib
import functools
import os
import socket
from pathlib import Path

import agentjobs_worker
from agentjobs_runtime.sandboxes.directories import REPORT_DIRECTORY
from agentjobs_worker.sandbox.port_relay import ENTERED, PORTS_REQUEST, SAME_USER
from agentjobs_worker.sandbox.ports import open_network, start_helper
from agentjobs_worker.sandbox.protocol import SandboxPort

REPLY_TIMEOUT_SECONDS = 30
# Not by its path: a program that is imported has its compiled form stored.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from agentjobs_worker.sandbox.port_relay import main; main()"
)
_MAX_REPLY_BYTES = 4096


async def enter_sandbox(init_pid: int, uid: int | None, run_dir: Path) -> "RelayProcess":
    """Enter the network of this process, and run as this user, if given. Raises OSError."""
    relay = RelayProcess(run_dir)
    try:
        network = open_network(init_pid)
        try:
            await relay.enter(network, uid)
        finally:
            os.close(network)
    except BaseException:
        relay.close()
        raise
    return relay


class RelayProcess:
    """Connects ports of agents' sandboxes to a service."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        packages = str(Path(agentjobs_worker.__file__).parent.parent)
        self._control, self._process = start_helper(
            "-c", _PROGRAM, packages, kind=socket.SOCK_SEQPACKET
        )

    async def enter(self, network: int, uid: int | None) -> None:
        """Enter the network of the service and run as this user, if given. Raises OSError."""
        user = SAME_USER if uid is None else uid
        socket.send_fds(self._control, [str(user).encode()], [network])
        reply = await self._reply()
        if reply != ENTERED:
            raise OSError(reply.decode(errors="replace"))

    async def listening_ports(self) -> list[int]:
        self._control.send(PORTS_REQUEST)
        return sorted(map(int, (await self._reply()).split()))

    def port(self, number: int) -> SandboxPort:
        return SandboxPort(number=number, on_socket=functools.partial(self._serve, number))

    async def has_reported(self, name: str) -> bool:
        return os.path.lexists(self._run_dir / REPORT_DIRECTORY / name)

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _serve(self, port: int, listener: socket.socket) -> None:
        """Connect what this socket accepts to the service's port. The socket is closed here.

        Without a relay, the agent's connections are refused.
        """
        with listener, contextlib.suppress(OSError):
            socket.send_fds(self._control, [str(port).encode()], [listener.fileno()])

    async def _reply(self) -> bytes:
        """One request at a time. Raises OSError."""
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
                reply = await asyncio.get_running_loop().sock_recv(self._control, _MAX_REPLY_BYTES)
        except TimeoutError:
            raise TimeoutError("the port relay does not respond") from None
        if not reply:
            raise OSError("the port relay ended")
        return reply
