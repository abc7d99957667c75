"""Opens sockets in the networks of pods, and relays a pod's address to one port inside.

A small process of its own does it, since only a single-threaded one may enter a user namespace.
"""

import asyncio
import contextlib
import functools
import os
import secrets
import socket
import subprocess
import sys
import threading
from ipaddress import IPv4Address
from pathlib import Path

import agentjobs_runtime
import agentjobs_worker
from agentjobs_worker.sandbox.port_listener import enter

PORT = 8463
_ADDRESSES = (int(IPv4Address("127.64.0.1")), int(IPv4Address("127.127.255.254")))
_PROGRAM = (
    "import sys; sys.path[:0] = sys.argv[1:];"
    " from tests.support.kubernetes.pod_network import main; main()"
)
_LOWEST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


class SocketOpener:
    """Always `close` it."""

    def __init__(self) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        packages = (agentjobs_runtime, agentjobs_worker)
        paths = [str(Path(package.__path__[0]).parent) for package in packages]
        paths.append(str(Path(__file__).parents[3]))
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, *paths],
                stdin=other.fileno(),
                env={},
                start_new_session=True,
            )

    async def open(self, network: int) -> socket.socket:
        """A TCP socket in this network, which is not connected. Raises OSError."""
        opening = asyncio.ensure_future(asyncio.to_thread(self._open, network))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread cannot be interrupted, and nobody else would close its socket.
            with contextlib.suppress(OSError):
                (await opening).close()
            raise

    def _open(self, network: int) -> socket.socket:
        with self._lock:
            socket.send_fds(self._control, [b"open"], [network])
            reply, descriptors, _, _ = socket.recv_fds(self._control, 4096, 1)
        if not descriptors:
            raise OSError(reply.decode() or "the opener ended")
        return socket.socket(fileno=descriptors[0])

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Each request is for a process of its own: whoever has entered one network stays there."""
    control = socket.socket(fileno=os.dup(0))
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        if not request:
            os._exit(0)
        if (child := os.fork()) == 0:
            _serve(control, descriptors[0])
            os._exit(0)
        os.close(descriptors[0])
        os.waitpid(child, 0)


def _serve(control: socket.socket, network: int) -> None:
    try:
        enter(network)
        # The pod's sysctl.
        with contextlib.suppress(OSError):
            _LOWEST_PORT.write_text("0")
        opened = socket.socket()
    except OSError as error:
        control.send(str(error).encode())
    else:
        socket.send_fds(control, [b"opened"], [opened.fileno()])


class PodAddress:
    """An address of this machine whose port leads to the same port in the pod's network."""

    def __init__(self, opener: SocketOpener) -> None:
        self._opener = opener
        self._network: int | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self._listener = _listen()
        self.ip: str = self._listener.getsockname()[0]

    async def start(self, network: int) -> None:
        """Owns the descriptor from now on."""
        self._network = network
        (await self._opener.open(network)).close()
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def close(self) -> None:
        """Connections break."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for relay in self._relays:
            relay.cancel()
        if self._relays:
            await asyncio.wait(self._relays)
        if self._network is not None:
            os.close(self._network)

    def _accept(self) -> None:
        # The one that connected may be gone.
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            relay = asyncio.ensure_future(self._relay(connection))
            self._relays.add(relay)
            relay.add_done_callback(functools.partial(self._end_relay, connection))

    def _end_relay(self, connection: socket.socket, relay: asyncio.Task[None]) -> None:
        """Also of one that was cancelled before it began."""
        connection.close()
        self._relays.discard(relay)

    async def _relay(self, outside: socket.socket) -> None:
        assert self._network is not None
        loop = asyncio.get_running_loop()
        with (
            outside,
            contextlib.suppress(OSError),
            await self._opener.open(self._network) as inside,
        ):
            inside.setblocking(False)
            await loop.sock_connect(inside, ("127.0.0.1", PORT))
            await join(outside, inside)


async def join(one: socket.socket, other: socket.socket) -> None:
    """Pass on what each of them receives until both have ended. Raises OSError if one breaks.

    Afterwards, nothing waits for them: a loop would take a later socket with the number of a closed
    one for the same, and never see that it can be read.
    """
    copies = [asyncio.ensure_future(_copy(*pair)) for pair in ((one, other), (other, one))]
    try:
        await asyncio.gather(*copies)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.wait(copies)


async def _copy(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, 262_144):
        await loop.sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)


def _listen() -> socket.socket:
    low, high = _ADDRESSES
    while True:
        listener = socket.socket()
        listener.setblocking(False)
        try:
            listener.bind((str(IPv4Address(low + secrets.randbelow(high - low))), PORT))
        except OSError:
            listener.close()
            continue
        listener.listen(64)
        return listener
