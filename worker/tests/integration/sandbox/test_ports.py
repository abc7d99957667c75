"""Ports on a sandbox's loopback that the service serves."""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from agentjobs_worker.sandbox.ports import MAX_PORTS, SandboxPorts
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxPort
from tests.support.bare_bwrap import bare_sandbox
from tests.support.child_processes import children_of

OnLoop = Callable[[Coroutine[Any, Any, None]], None]

# Prints each address it connects to and the reply it reads there.
_CLIENT = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as s:
            s.sendall(b"hello")
            s.shutdown(socket.SHUT_WR)
            print(target, s.makefile().read())
    except OSError as error:
        print(target, type(error).__name__)
"""
_PYTHON = (sys.executable, "-I", "-S", "-c", _CLIENT)


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    """Both event loops: the service runs on uvloop, but asyncio's own must work too."""
    return uvloop.run if request.param == "uvloop" else asyncio.run


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    before = _sockets()
    yield
    assert _sockets() <= before


def _sockets() -> set[Path]:
    opened = Path("/proc/self/fd").iterdir()
    return {entry.readlink() for entry in opened if entry.is_socket()}


class Parrot(asyncio.Protocol):
    """Replies with its own address and the received bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        host, port = self._transport.get_extra_info("sockname")
        self._transport.write(f"{host}:{port} received {data.decode()}".encode())
        self._transport.close()


def test_a_port_listens_on_every_loopback_address_of_the_sandbox(on_loop: OnLoop) -> None:
    async def check() -> None:
        ports = SandboxPorts(
            [SandboxPort(number=80, protocol=Parrot), SandboxPort(number=8462, protocol=Parrot)]
        )
        targets = ("127.0.0.1:80", "127.88.0.7:80", "127.0.0.1:8462")
        async with bare_sandbox(*_PYTHON, *targets) as sandbox:
            ports.start()
            await ports.open(sandbox.init_pid)
            output = await sandbox.run()
        await ports.close()
        assert output.splitlines() == [f"{target} {target} received hello" for target in targets]

    on_loop(check())


def test_a_listening_socket_can_be_handed_to_another_server(on_loop: OnLoop) -> None:
    async def check() -> None:
        handed_over: list[socket.socket] = []
        ports = SandboxPorts(
            [
                SandboxPort(number=80, protocol=Parrot),
                SandboxPort(number=5432, on_socket=handed_over.append),
            ]
        )
        targets = ("127.0.0.1:80", "127.0.0.1:5432")
        async with bare_sandbox(*_PYTHON, *targets) as sandbox:
            await ports.open(sandbox.init_pid)
            server = await asyncio.get_running_loop().create_server(Parrot, sock=handed_over[0])
            # It belongs to its new owner.
            await ports.close()
            async with server:
                output = await sandbox.run()
        assert output.splitlines() == [
            f"{targets[0]} ConnectionRefusedError",
            f"{targets[1]} {targets[1]} received hello",
        ]

    on_loop(check())


def test_ports_of_two_sandboxes_are_separate(on_loop: OnLoop) -> None:
    class Other(Parrot):
        def data_received(self, _data: bytes) -> None:
            self._transport.write(b"the other")
            self._transport.close()

    async def check() -> None:
        first_ports, second_ports = (
            SandboxPorts([SandboxPort(number=443, protocol=Parrot)]),
            SandboxPorts([SandboxPort(number=443, protocol=Other)]),
        )
        async with (
            bare_sandbox(*_PYTHON, "127.0.0.1:443") as first,
            bare_sandbox(*_PYTHON, "127.0.0.1:443") as second,
        ):
            await asyncio.gather(
                first_ports.open(first.init_pid), second_ports.open(second.init_pid)
            )
            outputs = await asyncio.gather(first.run(), second.run())
        await first_ports.close()
        await second_ports.close()
        assert "received hello" in outputs[0]
        assert "the other" in outputs[1]

    on_loop(check())


def test_a_sandbox_without_ports_has_no_way_out(on_loop: OnLoop) -> None:
    async def check() -> None:
        with socket.create_server(("127.0.0.1", 0)) as hosts:
            target = f"127.0.0.1:{hosts.getsockname()[1]}"
            ports = SandboxPorts([])
            async with bare_sandbox(*_PYTHON, target, "169.254.169.254:80") as sandbox:
                ports.start()
                await ports.open(sandbox.init_pid)
                output = await sandbox.run()
            await ports.close()
        assert output.splitlines() == [
            f"{target} ConnectionRefusedError",
            "169.254.169.254:80 OSError",
        ]

    on_loop(check())


def test_the_port_listener_has_exited_when_the_ports_are_open(on_loop: OnLoop) -> None:
    async def check() -> None:
        ports = SandboxPorts([SandboxPort(number=80, protocol=Parrot)])
        async with bare_sandbox(*_PYTHON, "127.0.0.1:80") as sandbox:
            children, sockets = children_of(), _sockets()
            await ports.open(sandbox.init_pid)
            left = children_of() - children
            opened = _sockets() - sockets
            output = await sandbox.run()
        await ports.close()
        assert left == set()
        assert len(opened) == 1, "more than the port itself"
        assert "received hello" in output

    on_loop(check())


def test_a_closed_port_refuses_connections(on_loop: OnLoop) -> None:
    async def check() -> None:
        ports = SandboxPorts([SandboxPort(number=80, protocol=Parrot)])
        async with bare_sandbox(*_PYTHON, "127.0.0.1:80") as sandbox:
            await ports.open(sandbox.init_pid)
            await ports.close()
            assert "ConnectionRefusedError" in await sandbox.run()

    on_loop(check())


def test_opening_ports_of_a_dead_sandbox_is_a_sandbox_error(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with bare_sandbox("true") as sandbox:
            await sandbox.run()
        ports = SandboxPorts([SandboxPort(number=80, protocol=Parrot)])
        with pytest.raises(SandboxError, match="could not be opened"):
            await ports.open(sandbox.init_pid)
        await ports.close()

    on_loop(check())


def test_a_port_in_use_is_a_sandbox_error(on_loop: OnLoop) -> None:
    async def check() -> None:
        ports = SandboxPorts(
            [SandboxPort(number=80, protocol=Parrot), SandboxPort(number=80, protocol=Parrot)]
        )
        async with bare_sandbox("true") as sandbox:
            with pytest.raises(SandboxError, match="port 80: Address already in use"):
                await ports.open(sandbox.init_pid)

    on_loop(check())


def test_opening_can_be_cancelled_at_any_moment(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with bare_sandbox("true") as sandbox:
            for step in range(12):
                ports = SandboxPorts([SandboxPort(number=80, protocol=Parrot)])
                opening = asyncio.ensure_future(ports.open(sandbox.init_pid))
                await asyncio.wait({opening}, timeout=step * 0.003)
                opening.cancel()
                await asyncio.wait({opening})
                await ports.close()

    on_loop(check())


def test_an_unused_port_listener_ends_with_its_service(on_loop: OnLoop) -> None:
    async def check() -> int | None:
        ports = SandboxPorts([SandboxPort(number=80, protocol=Parrot)])
        ports.start()
        assert ports._listener is not None
        process = ports._listener._process
        await ports.close()
        return process.returncode

    assert on_loop(check()) is not None


def test_a_port_listener_that_cannot_start_is_a_sandbox_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match=r"could not be opened: .*No such file"):
        SandboxPorts([SandboxPort(number=80, protocol=Parrot)]).start()


def test_without_a_sandbox_ports_open_on_free_ports_of_the_machine(on_loop: OnLoop) -> None:
    async def check() -> None:
        ports = SandboxPorts(
            [
                SandboxPort(number=80, protocol=Parrot),
                SandboxPort(number=81, on_socket=socket.socket.close),
                SandboxPort(number=443, protocol=Parrot),
            ]
        )
        addresses = await ports.open_on_host()
        for port in (80, 443):
            host, _, real = addresses[port].rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(real))
            writer.write(b"hello")
            assert await reader.read() == f"{addresses[port]} received hello".encode()
            writer.close()
        await ports.close()

    on_loop(check())


def test_more_ports_than_one_message_can_pass_are_refused() -> None:
    with pytest.raises(SandboxError, match="253 ports"):
        SandboxPorts([SandboxPort(number=80, protocol=Parrot)] * (MAX_PORTS + 1))
