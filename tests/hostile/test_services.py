"""Services that attack: they harm neither the worker nor the services of another job."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.environments.running_service import ServiceFailed, ServiceTask
from agentjobs_worker.sandbox.protocol import Sandbox
from tests.support.event_loop import longest_turn
from tests.support.sandbox import eventually
from tests.support.services import ECHO, ServiceHarness, echo_service

MIB = 1024 * 1024
_MAX_TURN_SECONDS = 0.5
_LIMITS = Limits(memory_bytes=256 * MIB, processes=64, workspace_bytes=32 * MIB)
_PORT = "127.0.0.1:7000"
_SERVE = f"""
import sys
sys.argv[1:] = ["{_PORT}"]
exec({ECHO!r})
"""
# Each of them serves its port meanwhile.
_ATTACKS = {
    "floods its output": """
import os, threading
def flood():
    while True: os.write(1, b"x" * 65536)
print("attacked", flush=True)
threading.Thread(target=flood).start()
""",
    "forks": """
import os, threading, time
def fork():
    while True:
        try:
            if os.fork() == 0:
                while True: time.sleep(1000)
        except OSError:
            print("attacked", flush=True)
            time.sleep(0.05)
threading.Thread(target=fork).start()
""",
    "holds 10,000 sockets": """
import socket
own = socket.create_server(("127.0.0.1", 7001), backlog=4096)
held = []
for _ in range(5000):
    held.append(socket.create_connection(("127.0.0.1", 7001)))
    held.append(own.accept()[0])
print("attacked", flush=True)
""",
}


@pytest.fixture
def directory() -> Iterator[Path]:
    """On a disk: files of a service that live in memory count as memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture
def harness(sandbox: Sandbox, directory: Path) -> ServiceHarness:
    return ServiceHarness(sandbox, directory)


def attacker(harness: ServiceHarness, program: str) -> ServiceTask:
    return harness.service("attacker", "python3", "-c", _SERVE + program, limits=_LIMITS)


@pytest.mark.parametrize("attack", _ATTACKS)
async def test_others_are_served_while_a_service(harness: ServiceHarness, attack: str) -> None:
    tasks = (
        attacker(harness, _ATTACKS[attack]),
        harness.service("other", *echo_service("127.0.0.1:5000")),
    )
    async with harness.running(*tasks) as services:
        await harness.wait_for_output("attacker", b"attacked")
        assert await harness.connect(services, "127.0.0.1:5000") == ["5000 echo hello"]
    assert harness.ended == []


async def test_a_flood_of_output_does_not_delay_the_worker(harness: ServiceHarness) -> None:
    task = attacker(harness, _ATTACKS["floods its output"])
    async with longest_turn() as longest, harness.running(task) as services:
        await harness.wait_for_output("attacker", b"attacked")
        assert await harness.connect(services, _PORT) == ["7000 echo hello"]
    assert longest.cpu_seconds < _MAX_TURN_SECONDS


async def test_a_service_that_fills_the_disk_is_stopped(harness: ServiceHarness) -> None:
    program = """
import socket
socket.create_server(("127.0.0.1", 7000)).accept()
with open("large", "wb") as file:
    while True: file.write(bytes(1 << 20))
"""
    tasks = (
        harness.service("attacker", "python3", "-c", program, limits=_LIMITS),
        harness.service("other", *echo_service("127.0.0.1:5000")),
    )
    async with harness.running(*tasks) as services:
        await harness.connect(services, _PORT)
        await eventually(lambda: bool(harness.ended), 60)
        assert await harness.connect(services, "127.0.0.1:5000") == ["5000 echo hello"]
    assert str(harness.ended[0]) == "service attacker used more than 32 MiB in the workspace"


async def test_a_check_that_uses_too_much_memory_is_stopped(harness: ServiceHarness) -> None:
    limits = Limits(memory_bytes=64 * MIB)
    task = harness.service("attacker", "sleep", "1000", ready="yes", limits=limits)
    with pytest.raises(ServiceFailed, match="attacker used more than 64 MiB of memory"):
        async with harness.running(task):
            pass


async def test_a_service_with_a_thousand_ports_fails(harness: ServiceHarness) -> None:
    program = """
import socket
held = [socket.create_server(("127.0.0.1", port)) for port in range(10000, 11000)]
"""
    with pytest.raises(ServiceFailed, match="service attacker listens on more than 32 ports"):
        async with harness.running(attacker(harness, program)):
            pass
