"""The ports of one sandbox: listening sockets on its loopback that the service serves.

No code of the service runs inside the sandbox, so an agent cannot tamper with it. Each port's
protocol decides what happens on its connections.
"""

import array
import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from agentjobs_worker.sandbox import port_listener
from agentjobs_worker.sandbox.child import Child
from agentjobs_worker.sandbox.port_listener import BACKLOG, OPENED
from agentjobs_worker.sandbox.protocol import HostExhausted, SandboxError, SandboxPort

OPEN_TIMEOUT_SECONDS = 10
# The kernel passes at most this many descriptors in one message.
MAX_PORTS = 253
_PROGRAM = port_listener.__file__


class SandboxPorts:
    """Call `start` as early as possible, `open` when the sandbox is ready, and always `close`."""

    def __init__(self, ports: Sequence[SandboxPort]) -> None:
        if len(ports) > MAX_PORTS:
            raise SandboxError(f"an agent can have {MAX_PORTS} ports, not {len(ports)}")
        self._ports = tuple(ports)
        self._listener: _Listener | None = None
        self._servers: list[asyncio.Server] = []

    def start(self) -> None:
        """Optional: start the listener process while bwrap creates the sandbox."""
        if not self._ports or self._listener is not None:
            return
        try:
            self._listener = _Listener()
        except OSError as error:
            raise SandboxError(f"the ports of the sandbox could not be opened: {error}") from error

    async def open(self, init_pid: int) -> None:
        """Listen on every address in the network namespace of that process."""
        self.start()
        if self._listener is None:
            return
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_SECONDS):
                sockets = await self._listener.open(init_pid, [port.number for port in self._ports])
                await self._serve(sockets)
                await self._listener.wait_for_exit()
            self._stop_listener()
        except TimeoutError:
            await self.close()
            raise HostExhausted("the ports of the sandbox did not open in time") from None
        except OSError as error:
            await self.close()
            raise SandboxError(f"the ports of the sandbox could not be opened: {error}") from error

    async def open_on_host(self) -> dict[int, str]:
        """Listen on free ports of the machine, without a sandbox. Returns addresses by number."""
        try:
            sockets = [_free_port() for _ in self._ports]
            names = [sock.getsockname() for sock in sockets]
            await self._serve(sockets)
        except OSError as error:
            raise SandboxError(f"no port for the agent could be opened: {error}") from error
        return {
            port.number: f"{host}:{host_port}"
            for port, (host, host_port) in zip(self._ports, names, strict=True)
        }

    async def close(self) -> None:
        """Stop listening. The owners of the protocols close the connections."""
        self._stop_listener()
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _stop_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        remaining = list(sockets)
        try:
            for port in self._ports:
                if port.protocol is None:
                    assert port.on_socket is not None
                    port.on_socket(remaining.pop(0))
                    continue
                server = await loop.create_server(
                    port.protocol, sock=remaining[0], backlog=BACKLOG, start_serving=False
                )
                remaining.pop(0)
                self._servers.append(server)
                await server.start_serving()
        finally:
            for sock in remaining:
                sock.close()


class _Listener:
    def __init__(self) -> None:
        self._socket, self._process = start_helper(_PROGRAM)

    async def open(self, init_pid: int, ports: Sequence[int]) -> list[socket.socket]:
        namespace = open_network(init_pid)
        try:
            message = " ".join(map(str, ports)).encode()
            socket.send_fds(self._socket, [message], [namespace])
        finally:
            os.close(namespace)
        await self._wait_for_reply()
        return self._receive(len(ports))

    async def wait_for_exit(self) -> None:
        """Wait until the process exits, which it does after its reply."""
        child = Child(self._process.pid)
        try:
            await child.ended
        finally:
            child.close()

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    async def _wait_for_reply(self) -> None:
        loop = asyncio.get_running_loop()
        replied: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._socket.fileno(), _set, replied)
        try:
            await replied
        finally:
            loop.remove_reader(self._socket.fileno())

    def _receive(self, count: int) -> list[socket.socket]:
        ancillary_bytes = socket.CMSG_LEN(count * array.array("i").itemsize)
        message, ancillary, _, _ = self._socket.recvmsg(
            4096, ancillary_bytes, socket.MSG_CMSG_CLOEXEC
        )
        sockets = [
            socket.socket(fileno=descriptor)
            for _, _, data in ancillary
            for descriptor in array.array("i", data)
        ]
        if message != OPENED or len(sockets) != count:
            for sock in sockets:
                sock.close()
            raise OSError(message.decode(errors="replace") or "the port listener died")
        return sockets


def open_network(pid: int) -> int:
    """A descriptor of the network namespace of this process. Raises OSError."""
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def start_helper(
    *arguments: str, kind: socket.SocketKind = socket.SOCK_STREAM
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A Python of its own, which has the other end of the socket as stdin. Raises OSError."""
    own, other = socket.socketpair(socket.AF_UNIX, kind)
    own.setblocking(False)
    with other:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", *arguments],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            own.close()
            raise
    return own, process


def _set(replied: asyncio.Future[None]) -> None:
    if not replied.done():
        replied.set_result(None)


def _free_port() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind(("127.0.0.1", 0))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
