"""Ports of a sandbox's own loopback that the service answers."""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from agentjobs.sandbox.ports import MOST_DOORS, Doors
from agentjobs.sandbox.protocol import Door, SandboxError
from tests.support.bare_bwrap import bare_sandbox

OnLoop = Callable[[Coroutine[Any, Any, None]], None]

# Says what it is told to connect to, and what it heard there.
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
    """The service runs on uvloop; a loop of the standard library must do as well."""
    return uvloop.run if request.param == "uvloop" else asyncio.run


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    before = _sockets()
    yield
    assert _sockets() <= before


def _sockets() -> set[Path]:
    opened = Path("/proc/self/fd").iterdir()
    return {entry.readlink() for entry in opened if entry.is_socket()}


def _children() -> set[str]:
    """Also those that ended and wait to be noticed."""
    threads = Path("/proc/self/task").iterdir()
    return {pid for thread in threads for pid in (thread / "children").read_text().split()}


class Parrot(asyncio.Protocol):
    """Answers with its own address and what it was told."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        host, port = self._transport.get_extra_info("sockname")
        self._transport.write(f"{host}:{port} heard {data.decode()}".encode())
        self._transport.close()


def test_a_door_answers_inside_on_every_address_of_the_loopback(on_loop: OnLoop) -> None:
    async def check() -> None:
        doors = Doors([Door(port=80, protocol=Parrot), Door(port=8462, protocol=Parrot)])
        targets = ("127.0.0.1:80", "127.88.0.7:80", "127.0.0.1:8462")
        async with bare_sandbox(*_PYTHON, *targets) as sandbox:
            doors.start()
            await doors.open(sandbox.init_pid)
            output = await sandbox.run()
        await doors.close()
        assert output.splitlines() == [f"{target} {target} heard hello" for target in targets]

    on_loop(check())


def test_doors_of_two_sandboxes_do_not_meet(on_loop: OnLoop) -> None:
    class Other(Parrot):
        def data_received(self, _data: bytes) -> None:
            self._transport.write(b"the other")
            self._transport.close()

    async def check() -> None:
        one, two = Doors([Door(port=443, protocol=Parrot)]), Doors([Door(port=443, protocol=Other)])
        async with (
            bare_sandbox(*_PYTHON, "127.0.0.1:443") as first,
            bare_sandbox(*_PYTHON, "127.0.0.1:443") as second,
        ):
            await asyncio.gather(one.open(first.init_pid), two.open(second.init_pid))
            outputs = await asyncio.gather(first.run(), second.run())
        await one.close()
        await two.close()
        assert "heard hello" in outputs[0]
        assert "the other" in outputs[1]

    on_loop(check())


def test_without_a_door_there_is_no_way_out(on_loop: OnLoop) -> None:
    async def check() -> None:
        with socket.create_server(("127.0.0.1", 0)) as hosts:
            target = f"127.0.0.1:{hosts.getsockname()[1]}"
            doors = Doors([])
            async with bare_sandbox(*_PYTHON, target, "169.254.169.254:80") as sandbox:
                doors.start()
                await doors.open(sandbox.init_pid)
                output = await sandbox.run()
            await doors.close()
        assert output.splitlines() == [
            f"{target} ConnectionRefusedError",
            "169.254.169.254:80 OSError",
        ]

    on_loop(check())


def test_nothing_is_left_of_the_doorkeeper_when_the_doors_are_open(on_loop: OnLoop) -> None:
    async def check() -> None:
        doors = Doors([Door(port=80, protocol=Parrot)])
        async with bare_sandbox(*_PYTHON, "127.0.0.1:80") as sandbox:
            children, sockets = _children(), _sockets()
            await doors.open(sandbox.init_pid)
            left = _children() - children
            opened = _sockets() - sockets
            output = await sandbox.run()
        await doors.close()
        assert left == set()
        assert len(opened) == 1, "more than the door itself"
        assert "heard hello" in output

    on_loop(check())


def test_a_closed_door_lets_nobody_in(on_loop: OnLoop) -> None:
    async def check() -> None:
        doors = Doors([Door(port=80, protocol=Parrot)])
        async with bare_sandbox(*_PYTHON, "127.0.0.1:80") as sandbox:
            await doors.open(sandbox.init_pid)
            await doors.close()
            assert "ConnectionRefusedError" in await sandbox.run()

    on_loop(check())


def test_a_sandbox_that_is_gone_is_an_error_of_the_sandbox(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with bare_sandbox("true") as sandbox:
            await sandbox.run()
        doors = Doors([Door(port=80, protocol=Parrot)])
        with pytest.raises(SandboxError, match="could not be opened"):
            await doors.open(sandbox.init_pid)
        await doors.close()

    on_loop(check())


def test_a_port_that_is_taken_is_an_error_of_the_sandbox(on_loop: OnLoop) -> None:
    async def check() -> None:
        doors = Doors([Door(port=80, protocol=Parrot), Door(port=80, protocol=Parrot)])
        async with bare_sandbox("true") as sandbox:
            with pytest.raises(SandboxError, match="port 80: Address already in use"):
                await doors.open(sandbox.init_pid)

    on_loop(check())


def test_opening_can_be_cancelled_at_any_moment(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with bare_sandbox("true") as sandbox:
            for step in range(12):
                doors = Doors([Door(port=80, protocol=Parrot)])
                opening = asyncio.ensure_future(doors.open(sandbox.init_pid))
                await asyncio.wait({opening}, timeout=step * 0.003)
                opening.cancel()
                await asyncio.wait({opening})
                await doors.close()

    on_loop(check())


def test_a_doorkeeper_that_nobody_asks_ends_with_its_service(on_loop: OnLoop) -> None:
    async def check() -> int | None:
        doors = Doors([Door(port=80, protocol=Parrot)])
        doors.start()
        assert doors._keeper is not None
        process = doors._keeper._process
        await doors.close()
        return process.returncode

    assert on_loop(check()) is not None


def test_a_doorkeeper_that_cannot_be_started_is_an_error_of_the_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match=r"could not be opened: .*No such file"):
        Doors([Door(port=80, protocol=Parrot)]).start()


def test_without_a_sandbox_doors_open_on_free_ports_of_the_machine(on_loop: OnLoop) -> None:
    async def check() -> None:
        doors = Doors([Door(port=80, protocol=Parrot), Door(port=443, protocol=Parrot)])
        addresses = await doors.open_on_host()
        for port in (80, 443):
            host, _, real = addresses[port].rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(real))
            writer.write(b"hello")
            assert await reader.read() == f"{addresses[port]} heard hello".encode()
            writer.close()
        await doors.close()

    on_loop(check())


def test_more_doors_than_can_be_handed_over_are_refused() -> None:
    with pytest.raises(SandboxError, match="doors"):
        Doors([Door(port=80, protocol=Parrot)] * (MOST_DOORS + 1))
