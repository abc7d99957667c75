"""The doors of one sandbox: ports of its own loopback, answered by the service.

Nothing of it runs inside the sandbox, so there is nothing an agent could tamper with. What is said
through a door is its protocol's business.
"""

import array
import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from agentjobs.sandbox import port_listener
from agentjobs.sandbox.child import Child
from agentjobs.sandbox.port_listener import BACKLOG, OPENED
from agentjobs.sandbox.protocol import Door, SandboxError

PATIENCE_SECONDS = 10
# As many descriptors as one message between processes can carry.
MOST_DOORS = 253
_PROGRAM = port_listener.__file__


class Doors:
    """`start` as early as possible, `open` when the sandbox is up, `close` in any case."""

    def __init__(self, doors: Sequence[Door]) -> None:
        if len(doors) > MOST_DOORS:
            raise SandboxError(f"an agent can have {MOST_DOORS} doors, this one wants {len(doors)}")
        self._doors = tuple(doors)
        self._keeper: _Doorkeeper | None = None
        self._servers: list[asyncio.Server] = []

    def start(self) -> None:
        """Optional: lets the doorkeeper come up while the sandbox is being made."""
        if not self._doors or self._keeper is not None:
            return
        try:
            self._keeper = _Doorkeeper()
        except OSError as error:
            raise SandboxError(f"the sandbox's doors could not be opened: {error}") from error

    async def open(self, init_pid: int) -> None:
        """Listen inside the network namespace of that process, on every address it has."""
        self.start()
        if self._keeper is None:
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                listening = await self._keeper.ask(init_pid, [door.port for door in self._doors])
                await self._serve(listening)
                await self._keeper.ended()
            self._dismiss_keeper()
        except TimeoutError:
            await self.close()
            raise SandboxError("the sandbox's doors did not open in time") from None
        except OSError as error:
            await self.close()
            raise SandboxError(f"the sandbox's doors could not be opened: {error}") from error

    async def open_on_host(self) -> dict[int, str]:
        """Without a sandbox: on free ports of the machine; the addresses, by each door's port."""
        try:
            await self._serve([_free_port() for _ in self._doors])
        except OSError as error:
            raise SandboxError(f"no port for the agent could be opened: {error}") from error
        names = [server.sockets[0].getsockname() for server in self._servers]
        return {
            door.port: f"{host}:{port}"
            for door, (host, port) in zip(self._doors, names, strict=True)
        }

    async def close(self) -> None:
        """Nobody is let in any more; conversations are ended by the protocols' owners."""
        self._dismiss_keeper()
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _dismiss_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    async def _serve(self, listening: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        unserved = list(listening)
        try:
            for door in self._doors:
                server = await loop.create_server(
                    door.protocol, sock=unserved[0], backlog=BACKLOG, start_serving=False
                )
                unserved.pop(0)
                self._servers.append(server)
                await server.start_serving()
        finally:
            for sock in unserved:
                sock.close()


class _Doorkeeper:
    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self._socket.setblocking(False)
        with other:
            try:
                self._process = _started(other)
            except OSError:
                self._socket.close()
                raise

    async def ask(self, init_pid: int, ports: Sequence[int]) -> list[socket.socket]:
        namespace = os.open(f"/proc/{init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            words = " ".join(map(str, ports)).encode()
            socket.send_fds(self._socket, [words], [namespace])
        finally:
            os.close(namespace)
        await self._answered()
        return self._received(len(ports))

    async def ended(self) -> None:
        """It ends by itself when it has answered; the event loop goes on meanwhile."""
        child = Child(self._process.pid)
        try:
            await child.ended
        finally:
            child.close()

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    async def _answered(self) -> None:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._socket.fileno(), _note, answered)
        try:
            await answered
        finally:
            loop.remove_reader(self._socket.fileno())

    def _received(self, count: int) -> list[socket.socket]:
        room = socket.CMSG_LEN(count * array.array("i").itemsize)
        words, ancillary, _, _ = self._socket.recvmsg(4096, room, socket.MSG_CMSG_CLOEXEC)
        listening = [
            socket.socket(fileno=descriptor)
            for _, _, data in ancillary
            for descriptor in array.array("i", data)
        ]
        if words != OPENED or len(listening) != count:
            for sock in listening:
                sock.close()
            raise OSError(words.decode(errors="replace") or "the doorkeeper died")
        return listening


def _started(stdin: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _PROGRAM],
        stdin=stdin.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )


def _note(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


def _free_port() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind(("127.0.0.1", 0))
    except OSError:
        sock.close()
        raise
    return sock
