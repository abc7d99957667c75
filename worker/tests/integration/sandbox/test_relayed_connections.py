"""A relay in one network: clients connect to 127.0.0.2, and the service listens on 127.0.0.1."""

import contextlib
import hashlib
import os
import resource
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.relayed_connections import MAX_CONNECTIONS
from tests.support.service import wait_until

MIB = 1024 * 1024
_SECONDS = 60
_PROGRAM = """
import socket
from agentjobs_worker.sandbox.port_relay import relay
relay(socket.socket(fileno=0))
"""


class Relay:
    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(self._control)
        with other:
            self.process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=other)
        stack.callback(self.process.wait)
        stack.callback(self.process.kill)
        self.port = 0
        self.accept_clients()

    def accept_clients(self) -> None:
        """Pass it a listening socket, as for each new sandbox."""
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(("127.0.0.2", self.port))
            listener.listen(256)
            self.port = listener.getsockname()[1]
            socket.send_fds(self._control, [str(self.port).encode()], [listener.fileno()])

    def service(self, host: str = "127.0.0.1") -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, self.port), family=family, backlog=512)
        listener.settimeout(_SECONDS)
        return self._stack.enter_context(listener)

    def client(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.2", self.port), timeout=_SECONDS)
        return self._stack.enter_context(client)

    def pair(self, service: socket.socket) -> tuple[socket.socket, socket.socket]:
        """A client and the connection that the service accepted for it."""
        client = self.client()
        accepted, _ = service.accept()
        accepted.settimeout(_SECONDS)
        return client, self._stack.enter_context(accepted)

    def end_worker(self) -> None:
        self._control.close()

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def is_idle(self) -> bool:
        """It used no CPU time for a while."""
        before = self._cpu_ticks()
        select.select([], [], [], 0.3)
        return self._cpu_ticks() == before

    def _cpu_ticks(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@pytest.fixture
def relay() -> Iterator[Relay]:
    with contextlib.ExitStack() as stack:
        yield Relay(stack)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_each_side_may_close_its_direction_first(relay: Relay, host: str) -> None:
    service = relay.service(host)
    client, accepted = relay.pair(service)
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    assert _read_all(accepted) == b"question"
    accepted.sendall(b"answer")
    accepted.close()
    assert _read_all(client) == b"answer"

    client, accepted = relay.pair(service)
    accepted.sendall(b"greeting")
    accepted.shutdown(socket.SHUT_WR)
    assert _read_all(client) == b"greeting"
    client.sendall(b"bye")
    client.close()
    assert _read_all(accepted) == b"bye"


def test_large_transfers_in_both_directions_arrive_whole(relay: Relay) -> None:
    client, accepted = relay.pair(relay.service())
    data = {sock: os.urandom(8 * MIB) for sock in (client, accepted)}
    senders = [threading.Thread(target=_send_all, args=(sock, data[sock])) for sock in data]
    received: dict[socket.socket, bytes] = {}

    def receive(sock: socket.socket) -> None:
        received[sock] = _read_all(sock)

    receivers = [threading.Thread(target=receive, args=(sock,)) for sock in data]
    for thread in (*senders, *receivers):
        thread.start()
    for thread in (*senders, *receivers):
        thread.join()
    assert _digest(received[accepted]) == _digest(data[client])
    assert _digest(received[client]) == _digest(data[accepted])


def test_a_client_must_wait_for_a_service_that_does_not_read(relay: Relay) -> None:
    client, accepted = relay.pair(relay.service())
    client.setblocking(False)
    sent = 0
    while select.select([], [client], [], 0.3)[1]:
        sent += client.send(bytes(64 * 1024))
        assert sent < 16 * MIB, "somebody stores it"
    client.shutdown(socket.SHUT_WR)
    assert len(_read_all(accepted)) == sent


def test_a_broken_connection_is_broken_on_the_other_side(relay: Relay) -> None:
    service = relay.service()
    for breaks_first in (0, 1):
        pair = relay.pair(service)
        reset, other = pair[breaks_first], pair[1 - breaks_first]
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        reset.close()
        with pytest.raises(ConnectionResetError):
            other.recv(1)


def test_a_port_without_a_service_resets_the_connection(relay: Relay) -> None:
    with pytest.raises(ConnectionResetError):
        relay.client().recv(1)


def test_clients_above_the_limit_wait_until_others_leave(relay: Relay) -> None:
    service = relay.service()
    pairs = [relay.pair(service) for _ in range(MAX_CONNECTIONS)]
    waiting = relay.client()
    waiting.sendall(b"hello")
    assert select.select([service], [], [], 0.2)[0] == []
    for sock in pairs.pop():
        sock.close()
    accepted, _ = service.accept()
    with accepted:
        assert accepted.recv(5) == b"hello"


@pytest.mark.parametrize("spare", [10, 11])
def test_clients_wait_while_the_relay_has_no_descriptors(relay: Relay, spare: int) -> None:
    service = relay.service()
    client, accepted = relay.pair(service)
    limit = relay.descriptors() + spare
    resource.prlimit(relay.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    waiting = [relay.client() for _ in range(12)]
    for following in waiting:
        accepted.close()
        assert _read_all(client) == b""
        client.close()
        client = following
        accepted, _ = service.accept()
    accepted.close()
    assert _read_all(client) == b""


def test_a_new_sandbox_replaces_the_connections_of_the_one_before(relay: Relay) -> None:
    service = relay.service()
    client, accepted = relay.pair(service)
    before = relay.descriptors()
    relay.accept_clients()
    assert accepted.recv(1) == b""
    assert client.recv(1) == b""
    relay.pair(service)
    assert relay.descriptors() == before


def test_a_relay_that_cannot_go_on_uses_no_cpu_time(relay: Relay) -> None:
    service = relay.service()
    # Some of them have received everything, also that both directions are closed, and the relay
    # has bytes that the service does not read.
    for size in range(256 * 1024, 2 * MIB, 64 * 1024):
        client, accepted = relay.pair(service)
        accepted.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        client.setblocking(False)
        client.send(bytes(size))
        client.close()
    wait_until(relay.is_idle, "the relay to wait", 10)


def test_the_relay_ends_with_the_worker(relay: Relay) -> None:
    relay.pair(relay.service())
    relay.end_worker()
    assert relay.process.wait(_SECONDS) == 0


def _send_all(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def _read_all(sock: socket.socket) -> bytes:
    with sock.makefile("rb") as file:
        return file.read()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
