"""Services in sandboxes of their own, which an agent reaches on its loopback."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest
import uvloop

from agentjobs_runtime.environments.definition import ServiceDefinition
from agentjobs_worker.environments.running_service import ServiceFailed, ServiceTask
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxPort
from tests.support.child_processes import children_of, descendants_of
from tests.support.image_roots import create_image
from tests.support.sandbox import ProcessMarker, eventually, unused_uid_base
from tests.support.services import ECHO, ServiceHarness, echo_service, echo_until

# Answers each connection with what it can reach of the addresses in its arguments.
_PROBER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 9000))
while True:
    client = listener.accept()[0]
    client.makefile().read()
    for target in sys.argv[1:]:
        host, _, port = target.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
            client.sendall(f"REACHED {target} ".encode())
        except OSError as error:
            client.sendall(f"{type(error).__name__} ".encode())
    client.close()
"""


@pytest.fixture
def harness(tmp_path: Path) -> ServiceHarness:
    return ServiceHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:6379", "0.0.0.0:6379", "::1:6379", ":::6379", "127.0.0.1:80"]
)
async def test_the_agent_reaches_a_service_on_its_loopback(
    harness: ServiceHarness, address: str
) -> None:
    port = address.rpartition(":")[2]
    async with harness.running(harness.service("echo", *echo_service(address))) as services:
        assert await harness.connect(services, f"127.0.0.1:{port}") == [f"{port} echo hello"]


async def test_services_with_several_ports_are_reached_from_every_sandbox_of_the_job(
    harness: ServiceHarness,
) -> None:
    tasks = (
        harness.service("first", *echo_service("127.0.0.1:5001", "127.0.0.1:5002")),
        harness.service("second", *echo_service("127.0.0.1:5003")),
    )
    targets = ("127.0.0.1:5001", "localhost:5002", "127.0.0.1:5003", "127.0.0.1:5004")
    async with harness.running(*tasks) as services:
        for _ in range(2):
            assert await harness.connect(services, *targets) == [
                *("5001 echo hello", "5002 echo hello", "5003 echo hello"),
                "5004 ConnectionRefusedError",
            ]


async def test_a_service_reaches_neither_the_ports_of_the_agent_nor_any_network(
    harness: ServiceHarness,
) -> None:
    connected: list[asyncio.BaseTransport] = []

    class Gateway(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connected.append(transport)

    gateway = SandboxPort(number=8462, protocol=Gateway)
    with socket.create_server(("127.0.0.1", 0)) as host:
        targets = (
            *("127.0.0.1:8462", f"127.0.0.1:{host.getsockname()[1]}", "127.0.0.1:5003"),
            *("169.254.169.254:80", "192.0.2.1:80", "2001:db8::1:80"),
        )
        tasks = (
            harness.service("prober", "python3", "-c", _PROBER, *targets),
            harness.service("other", *echo_service("127.0.0.1:5003")),
        )
        async with harness.running(*tasks, reserved_ports=(8462,)) as services:
            ports = (gateway, *services.ports())
            assert await harness.connect_with(ports, "127.0.0.1:9000", "127.0.0.1:8462") == [
                f"9000 {'ConnectionRefusedError ' * 3}{'OSError ' * 3}",
                "8462 ",
            ]
    assert len(connected) == 1, "by the agent only"


async def test_a_service_has_its_own_files_and_user(harness: ServiceHarness) -> None:
    (harness.agent.workspace / "secret").write_text("of the agent")
    script = 'id -u; ls -A /workspace; echo all; exec python3 -c "$0" 127.0.0.1:7000'
    async with harness.running(harness.service("spy", "sh", "-c", script, ECHO)):
        pass
    await harness.agent.shell("id -u")
    uid, *rest = harness.output["spy"].decode().split()
    assert rest == ["all"], "its workspace is empty"
    assert (uid == harness.agent.output.decode().strip()) == (os.geteuid() != 0)


async def test_the_ready_command_runs_beside_the_service_until_it_succeeds(
    harness: ServiceHarness,
) -> None:
    task = harness.service(
        "slow",
        *echo_service("127.0.0.1:7000"),
        ready="test -e go || { touch asked; echo waiting for go >&2; exit 1; }",
    )
    starting = asyncio.ensure_future(_enter(harness, task))
    await eventually((task.task.workspace / "asked").exists, 60)
    assert not starting.done()
    (task.task.workspace / "go").touch()
    assert await starting == ["7000 echo hello"]
    assert harness.output["slow"].count(b"not ready: waiting for go\n") == 1


async def _enter(harness: ServiceHarness, task: ServiceTask) -> list[str]:
    async with harness.running(task) as services:
        return await harness.connect(services, "127.0.0.1:7000")


async def test_the_check_is_no_child_of_the_service(harness: ServiceHarness) -> None:
    script = "import os; os.wait()"
    task = harness.service("lonely", "python3", "-c", script, ready="exit 3")
    with pytest.raises(ServiceFailed, match="service lonely ended with exit code 1") as failed:
        async with harness.running(task):
            pass
    assert "ChildProcessError" in failed.value.last_lines


_SLEEP = ("sleep", "1000")
_NO_PORT = "listens on no TCP port of 127.0.0.1 after 0.5 seconds"
_FAILURES = {
    "ends": (("sh", "-c", "exit 3"), "", "service it ended with exit code 3"),
    "is missing": (("no-such-program",), "", "service it ended with exit code 127"),
    "ends while it is checked": (("sh", "-c", "exit 4"), "false", "ended with exit code 4"),
    "never listens": (_SLEEP, "", _NO_PORT),
    "never ready": (_SLEEP, "false", "not ready after 0.5 seconds: its `ready` command did not"),
    "elsewhere": (echo_service("127.0.0.9:70"), "", _NO_PORT),
    "reserved": (echo_service("127.0.0.1:3128"), "", "port 3128, which agentjobs uses: change it"),
    "too many": (
        echo_service(*(f"127.0.0.1:{port}" for port in range(4000, 4033))),
        "",
        "listens on more than 32 ports",
    ),
}


@pytest.mark.parametrize("kind", _FAILURES)
async def test_a_service_that_cannot_be_used_fails(harness: ServiceHarness, kind: str) -> None:
    argv, ready, message = _FAILURES[kind]
    seconds = 0.5 if "0.5" in message else 120
    task = harness.service("it", *argv, ready=ready)
    with pytest.raises(ServiceFailed, match=message):
        async with harness.running(task, reserved_ports=(8462, 3128), ready_seconds=seconds):
            pass
    assert harness.ended == []


async def test_a_failure_shows_the_end_of_the_output(harness: ServiceHarness) -> None:
    task = harness.service("it", "sh", "-c", "echo broken >&2; exit 3")
    with pytest.raises(ServiceFailed) as failed:
        async with harness.running(task):
            pass
    assert (failed.value.name, failed.value.last_lines) == ("it", "broken")
    assert harness.output == {"it": b"broken\n"}


async def test_two_services_on_one_port_fail(harness: ServiceHarness) -> None:
    tasks = [harness.service(name, *echo_service("0.0.0.0:5432")) for name in ("one", "two")]
    with pytest.raises(ServiceFailed, match="service two listens on port 5432, like service one"):
        async with harness.running(*tasks):
            pass


async def test_a_service_that_ends_later_is_reported_and_the_agent_goes_on(
    harness: ServiceHarness,
) -> None:
    tasks = (
        harness.service("short", *echo_until("end", "127.0.0.1:5001")),
        harness.service("long", *echo_service("127.0.0.1:5002")),
    )
    async with harness.running(*tasks) as services:
        services.check()
        ports = services.ports()
        (tasks[0].task.workspace / "end").touch()
        await eventually(lambda: bool(harness.ended), 60)
        with pytest.raises(ServiceFailed, match="service short ended with exit code 5"):
            services.check()
        targets = ("127.0.0.1:5001", "127.0.0.1:5002")
        assert (await harness.connect_with(ports, *targets))[1] == "5002 echo hello"
        assert await harness.connect(services, *targets) == [
            "5001 ConnectionRefusedError",
            "5002 echo hello",
        ]
    assert [str(error) for error in harness.ended] == ["service short ended with exit code 5"]


async def test_services_end_with_the_job(harness: ServiceHarness) -> None:
    marker = ProcessMarker()
    script = f'{marker.sleeper()} & setsid {marker.sleeper()} & exec python3 -c "$0" 127.0.0.1:70'
    task = harness.service("it", "sh", "-c", script, ECHO)
    before = children_of()
    async with harness.running(task) as services:
        services.ports()
        assert len(marker.processes()) >= 2
    assert marker.processes() == []
    assert children_of() == before, "the relay has ended"
    assert harness.ended == []


async def test_a_start_can_be_cancelled_at_any_moment(harness: ServiceHarness) -> None:
    marker = ProcessMarker()
    before = children_of()
    for step in range(8):
        task = harness.service("it", "sh", "-c", marker.sleeper(), ready="false")
        starting = asyncio.ensure_future(_enter(harness, task))
        await asyncio.wait({starting}, timeout=step * 0.02)
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled()
        assert marker.processes() == []
        assert children_of() == before


def _is_alive(pid: int) -> bool:
    """Not if it has ended and nobody has reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_services_work_on_the_event_loop_of_the_service(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ServiceHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
        task = harness.service("echo", *echo_service("127.0.0.1:70"))
        async with harness.running(task) as services:
            assert await harness.connect(services, "127.0.0.1:70") == ["70 echo hello"]

    uvloop.run(check())


async def test_without_a_sandbox_there_are_no_services(tmp_path: Path) -> None:
    harness = ServiceHarness(ProcessSandbox(), tmp_path)
    with pytest.raises(SandboxError, match="a service needs a sandbox: set sandbox"):
        async with harness.running(harness.service("echo", *echo_service("127.0.0.1:70"))):
            pass


async def test_a_service_starts_from_its_image(harness: ServiceHarness, tmp_path: Path) -> None:
    root = create_image(tmp_path / "image")
    (root / "bin" / "start").write_text("#!/bin/sh\necho from $PWD > index.html\nexec httpd $*\n")
    (root / "bin" / "start").chmod(0o755)
    image = harness.image(root, entrypoint=("start", "-f"), command=("-p", "80"))
    definition = ServiceDefinition(name="web", image="it", ready="wget -q -O - http://127.0.0.1/")
    task = harness.image_service(definition, image)
    async with harness.running(task) as services:
        await harness.agent.shell("curl -s http://127.0.0.1/", ports=services.ports())
    assert harness.agent.output == b"from /srv\n"
    assert not (root / "srv").exists(), "the image itself does not change"


_POSTGRES = """
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
initdb --pgdata data --username app --auth trust --no-sync >/dev/null
exec postgres -D data -k /tmp -h 127.0.0.1 -c fsync=off -c shared_buffers=1MB
"""


async def test_an_agent_uses_postgresql(harness: ServiceHarness) -> None:
    task = harness.service("postgres", "sh", "-c", _POSTGRES, ready="pg_isready -h 127.0.0.1")
    query = "CREATE TABLE t AS SELECT generate_series(1, 20000) AS n; SELECT sum(n) FROM t"
    async with harness.running(task) as services:
        report = await harness.agent.run(
            *("psql", "-XAtq", "-h", "127.0.0.1", "-U", "app", "postgres", "-c", query),
            ports=services.ports(),
        )
        assert (report.exit_code, report.last_lines) == (0, "200010000")
        services.check()
    assert b"database system is ready to accept connections" in harness.output["postgres"]


_WORKER = """
import asyncio, sys
from pathlib import Path
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from tests.support.services import ServiceHarness, echo_service
async def main():
    harness = ServiceHarness(BubblewrapSandbox(int(sys.argv[1])), Path(sys.argv[2]))
    task = harness.service("echo", *echo_service("127.0.0.1:70"))
    async with harness.running(task) as services:
        ports = services.ports()
        agent = asyncio.ensure_future(harness.agent.run("sleep", "1000", ports=ports))
        print("up", flush=True)
        await agent
asyncio.run(main())
"""


async def test_services_and_relays_die_when_the_worker_is_killed(tmp_path: Path) -> None:
    arguments = (str(unused_uid_base()), str(tmp_path))
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WORKER, *arguments), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"up\n"
    descendants = descendants_of(worker.pid)
    assert len(descendants) > 3
    worker.kill()
    await worker.wait()
    await eventually(lambda: not any(map(_is_alive, descendants)), 60)
