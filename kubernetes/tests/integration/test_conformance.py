"""What every sandbox implementation guarantees."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxError, SandboxPort
from tests.support.kubernetes.memory_cluster import memory_cluster_process
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import ProcessMarker, SandboxHarness, eventually, unused_uid_base

MIB = 1024 * 1024

# Pods take longer than other sandboxes; `make test SUITE=kubernetes` runs all tests with layers.
KINDS = ["bubblewrap", "layers", "none", "kubernetes"]
ALL_KINDS = [*KINDS, "kubernetes-layers"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """The settings of the cluster, for the kinds that need one."""
    with memory_cluster_process() as kubeconfig:
        yield kubeconfig


@pytest.fixture
async def sandbox(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    if kind.startswith("kubernetes"):
        async with pod_sandbox(request.getfixturevalue("kubeconfig")) as sandbox:
            yield sandbox
    else:
        yield ProcessSandbox() if kind == "none" else BubblewrapSandbox(unused_uid_base())


@pytest.fixture
def harness(kind: str, sandbox: Sandbox, tmp_path: Path) -> SandboxHarness:
    harness = SandboxHarness(sandbox, tmp_path)
    if kind.endswith("layers"):
        harness.use_layers()
    return harness


async def test_it_can_be_checked_before_any_job(sandbox: Sandbox) -> None:
    await sandbox.check()


async def test_a_successful_command_reports_exit_code_zero(harness: SandboxHarness) -> None:
    report = await harness.shell("echo done")
    assert (report.exit_code, report.timed_out, report.last_lines) == (0, False, "done")
    assert report.duration_ms < 60_000


async def test_a_failing_command_reports_its_exit_code_and_last_lines(
    harness: SandboxHarness,
) -> None:
    report = await harness.shell("seq 1 100; echo 'it broke' >&2; exit 3")
    assert report.exit_code == 3
    assert report.last_lines.splitlines() == [*map(str, range(82, 101)), "it broke"]


async def test_a_command_killed_by_a_signal_reports_it_as_a_shell_does(
    harness: SandboxHarness,
) -> None:
    assert (await harness.shell("kill -9 $$")).exit_code == 137


async def test_a_missing_command_is_a_failure_of_the_agent(harness: SandboxHarness) -> None:
    report = await harness.run("no-such-agent")
    assert report.exit_code == 127
    assert "no-such-agent: not found" in report.last_lines


async def test_both_streams_arrive_merged_and_in_order(harness: SandboxHarness) -> None:
    await harness.shell("echo 1; echo 2 >&2; echo 3; printf 4 >&2")
    assert harness.output == b"1\n2\n3\n4"


class Gate(asyncio.Protocol):
    """Replies when a test opens it."""

    def __init__(self, opened: asyncio.Event) -> None:
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._replying = asyncio.ensure_future(self._reply(transport))

    async def _reply(self, transport: asyncio.WriteTransport) -> None:
        await self._opened.wait()
        transport.write(b"open")


WAIT_AT_GATE = """
import os, socket
print("first", flush=True)
host, _, port = os.environ["GATE"].rpartition(":")
with socket.create_connection((host, int(port)), 60) as connection:
    connection.recv(4)
print("second")
"""


async def test_output_arrives_while_the_command_runs(harness: SandboxHarness) -> None:
    opened = asyncio.Event()
    gate = SandboxPort(
        number=8462, protocol=lambda: Gate(opened), environment={"GATE": "{address}"}
    )
    running = asyncio.ensure_future(harness.run("python3", "-c", WAIT_AT_GATE, ports=(gate,)))
    await harness.wait_for_output(b"first\n")
    assert harness.output == b"first\n"
    opened.set()
    await running
    assert harness.output == b"first\nsecond\n"


@pytest.mark.parametrize("kind", ALL_KINDS, indirect=True)
async def test_the_workspace_is_the_working_directory_and_keeps_written_files(
    harness: SandboxHarness,
) -> None:
    (harness.workspace / "in.txt").write_text("before")
    await harness.shell('cat in.txt; echo after > out.txt; [ "$PWD" = "$(pwd)" ]')
    assert harness.output == b"before"
    assert (harness.workspace / "out.txt").read_text() == "after\n"


async def test_the_job_can_be_read_and_the_report_written(harness: SandboxHarness) -> None:
    report = await harness.shell(
        'cat "$AGENTJOBS_JOB"; echo Title > "$AGENTJOBS_REPORT"; echo 1 > "$AGENTJOBS_ARTIFACTS/a"'
    )
    assert report.exit_code == 0
    assert harness.output == b'{"job_id": "job_1"}'
    assert (harness.report_dir / "pull_request.md").read_text() == "Title\n"
    assert (harness.artifacts_dir / "a").read_text() == "1\n"


@pytest.mark.parametrize("kind", ["bubblewrap", "kubernetes"], indirect=True)
async def test_the_directories_of_results_can_be_neither_removed_nor_replaced(
    harness: SandboxHarness,
) -> None:
    await harness.shell(
        """
        for directory in "${AGENTJOBS_REPORT%/*}" "$AGENTJOBS_ARTIFACTS"; do
            rm -rf "$directory"; mv "$directory" "$directory-moved"; ln -sT /etc "$directory"
            ln "$AGENTJOBS_JOB" "$directory/job"; echo kept > "$directory/kept"
        done
        """
    )
    for directory in (harness.report_dir, harness.artifacts_dir):
        assert [path.name for path in directory.iterdir()] == ["kept"], harness.output


async def test_the_environment_comes_from_the_task_and_not_from_the_service(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTJOBS_DATABASE_URL", "postgresql://secret")
    environment = {"GREETING": "two\nlines \N{SNOWMAN} $HOME", "AGENTJOBS_PROMPT": "x" * 65_536}
    report = await harness.shell(
        'printf "%s|%s" "$GREETING" "${#AGENTJOBS_PROMPT}"; env -0 | grep -zq secret',
        environment=environment,
    )
    assert harness.output.decode() == "two\nlines \N{SNOWMAN} $HOME|65536"
    assert report.exit_code == 1


@pytest.mark.parametrize("kind", ALL_KINDS, indirect=True)
async def test_home_and_temporary_directory_are_private_and_removed_afterwards(
    harness: SandboxHarness,
) -> None:
    first = await harness.shell('touch "$HOME/a" "$TMPDIR/b" && echo "$HOME"')
    assert first.exit_code == 0
    assert not Path(first.last_lines, "a").exists()
    if harness.layers:
        # What is written there lasts as long as the layer's own directory.
        harness.use_layers()
    assert (await harness.shell('ls -A "$HOME" "$TMPDIR" | grep -x "[ab]"')).exit_code == 1


async def test_the_agent_and_its_children_have_a_lower_priority_than_the_service(
    harness: SandboxHarness,
) -> None:
    report = await harness.shell("nice; sh -c nice; setsid -w nice; renice -n 0 $$; nice")
    nice = min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    *inherited, after = [
        int(line) for line in report.last_lines.split("\n") if line.lstrip("-").isdecimal()
    ]
    assert inherited == [nice] * 3
    # Root without a sandbox may raise its priority.
    assert after == nice or isinstance(harness.sandbox, ProcessSandbox)


async def test_standard_input_is_empty(harness: SandboxHarness) -> None:
    assert (await harness.shell("cat")).exit_code == 0


async def test_the_wall_clock_ends_a_command_that_ignores_signals(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    report = await harness.shell(
        f"trap '' TERM INT HUP; echo on; {marker.sleeper()}", timeout_seconds=0.5
    )
    assert (report.exit_code, report.timed_out, report.last_lines) == (None, True, "on")
    assert marker.processes() == []


async def test_cancelling_kills_everything(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    running = harness.start(
        f"trap '' TERM; {marker.sleeper()} & {marker.sleeper()} & echo up; {marker.sleeper()}"
    )
    await harness.wait_for_output(b"up")
    await eventually(lambda: len(marker.processes()) >= 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert marker.processes() == []


async def test_cancelling_again_and_again_still_waits_for_the_end(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    running = harness.start(f"echo up; {marker.sleeper()}")
    await harness.wait_for_output(b"up")
    while not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=0.0001)
    assert running.cancelled()
    assert marker.processes() == []


async def test_a_start_can_be_cancelled_at_any_moment_and_leaves_nothing(
    harness: SandboxHarness,
) -> None:
    marker = ProcessMarker()
    for step in range(30):
        running = harness.start(marker.sleeper())
        await asyncio.wait({running}, timeout=step * 0.0004)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert marker.processes() == []


async def test_background_processes_do_not_outlive_the_command(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    report = await harness.shell(f"{marker.sleeper()} & echo done")
    assert report.exit_code == 0
    assert marker.processes() == []


async def test_endless_output_costs_neither_memory_nor_the_event_loop(
    harness: SandboxHarness,
) -> None:
    received = 0
    turns = 0

    def count(chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    began = time.monotonic()
    running = asyncio.ensure_future(
        harness.sandbox.run(harness.task("yes", timeout_seconds=0.5), count)
    )
    while not running.done():
        await asyncio.wait({running}, timeout=0.001)
        turns += 1
    report = running.result()
    assert report.timed_out
    # On a busy machine the command ends later, and more arrives.
    assert 100_000 < received < 40_000_000 * (time.monotonic() - began)
    assert turns > 20
    assert len(report.last_lines) <= 4_096


async def test_all_of_a_large_output_arrives(harness: SandboxHarness) -> None:
    await harness.shell("seq 1 200000")
    assert harness.output == "".join(f"{number}\n" for number in range(1, 200_001)).encode()


async def test_closing_its_output_does_not_end_a_command(harness: SandboxHarness) -> None:
    report = await harness.shell("exec >&- 2>&-; sleep 0.05; exit 4")
    assert report.exit_code == 4


async def test_an_error_in_the_output_callback_ends_the_command_and_is_raised(
    harness: SandboxHarness,
) -> None:
    marker = ProcessMarker()

    def refuse(_chunk: bytes) -> None:
        raise RuntimeError("no harness for a log")

    with pytest.raises(RuntimeError, match="no harness for a log"):
        await harness.sandbox.run(harness.task("sh", "-c", f"echo x; {marker.sleeper()}"), refuse)
    assert marker.processes() == []


async def test_a_command_starts_only_after_its_caller_is_prepared(harness: SandboxHarness) -> None:
    started = harness.workspace / "started"
    allowed = asyncio.Event()

    async def before_start() -> None:
        await allowed.wait()
        assert not started.exists()

    task = harness.task("sh", "-c", "echo x > started")
    running = asyncio.ensure_future(harness.sandbox.run(task, harness.receive, before_start))
    # The sandbox is ready long before this; its command must wait nevertheless.
    other = SandboxHarness(harness.sandbox, harness.private.parent, slot=1)
    await other.run("true")
    assert not started.exists()
    allowed.set()
    assert (await running).exit_code == 0
    assert started.exists()


async def test_a_command_does_not_start_if_its_caller_fails_to_prepare(
    harness: SandboxHarness,
) -> None:
    async def before_start() -> None:
        raise RuntimeError("the claim is lost")

    task = harness.task("sh", "-c", "echo x > started")
    with pytest.raises(RuntimeError, match="the claim is lost"):
        await harness.sandbox.run(task, harness.receive, before_start)
    assert not (harness.workspace / "started").exists()


async def test_a_missing_workspace_is_a_sandbox_error(harness: SandboxHarness) -> None:
    harness.workspace.rename(harness.private / "elsewhere")
    with pytest.raises(SandboxError, match="private-0/workspace"):
        await harness.run("true")


async def test_a_nul_in_the_environment_is_refused(harness: SandboxHarness) -> None:
    with pytest.raises(SandboxError):
        await harness.run("true", environment={"X": "a\0--bind\0/\0/host"})


async def test_no_descriptor_leaks_in_the_service_or_to_the_agent(harness: SandboxHarness) -> None:
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    before = set(Path("/proc/self/fd").iterdir())
    await harness.shell("for fd in /proc/self/fd/*; do echo ${fd##*/}; done; exit 0")
    with pytest.raises(SandboxError):
        await harness.run("true", workspace=harness.private / "missing")
    await harness.close()
    assert set(Path("/proc/self/fd").iterdir()) == before
    os.close(secret)
    assert set(harness.output.split()) <= {b"0", b"1", b"2", b"3"}


async def test_a_file_cannot_grow_without_bound(harness: SandboxHarness) -> None:
    report = await harness.shell("head -c 3000000 /dev/zero > big", limits=Limits(file_bytes=MIB))
    assert report.exit_code == 128 + signal.SIGXFSZ
    assert (harness.workspace / "big").stat().st_size == MIB


async def test_a_workspace_cannot_grow_without_bound(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    script = f"while n=x$n; do head -c 4000000 /dev/zero > $n; sync $n; done; : {marker.text}"
    report = await harness.shell(script, limits=Limits(workspace_bytes=32 * MIB))
    assert (report.exceeded, report.exit_code) == ("32 MiB in the workspace", None)
    assert not report.timed_out
    assert marker.processes() == []


async def test_a_workspace_within_its_limit_is_left_alone(harness: SandboxHarness) -> None:
    (harness.workspace / "given").write_bytes(bytes(4 * MIB))
    script = "for n in 1 2 3; do head -c 4000000 /dev/zero > big; sync big; sleep 0.2; done"
    report = await harness.shell(script, limits=Limits(workspace_bytes=32 * MIB))
    assert (report.exceeded, report.exit_code) == (None, 0)


async def test_a_report_of_a_normal_exit_names_no_limit(harness: SandboxHarness) -> None:
    assert (await harness.shell("exit 3")).exceeded is None


class Greeter(asyncio.Protocol):
    """Replies to each line with a greeting and the same line."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"hello " + data)


CALL = """
import os, socket
for name in ("FIRST", "SECOND"):
    host, _, port = os.environ[name].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(name.encode())
        print(connection.recv(100).decode())
print(os.environ["PLAIN"])
"""


async def test_the_service_serves_ports_at_the_address_in_the_environment(
    harness: SandboxHarness,
) -> None:
    ports = (
        SandboxPort(
            number=8462, protocol=Greeter, environment={"FIRST": "{address}", "PLAIN": "{token}"}
        ),
        SandboxPort(number=3128, protocol=Greeter, environment={"SECOND": "tcp://{address}"}),
    )
    report = await harness.run("python3", "-c", CALL, ports=ports)
    assert report.last_lines.split("\n") == ["hello FIRST", "hello SECOND", "{token}"]


async def test_a_definition_cannot_change_the_address_of_a_port(harness: SandboxHarness) -> None:
    port = SandboxPort(number=8462, protocol=Greeter, environment={"PROXY": "{address}"})
    report = await harness.shell('echo "$PROXY"', environment={"PROXY": "evil:1"}, ports=(port,))
    assert report.last_lines.startswith("127.0.0.1:")


async def test_several_sandboxes_can_use_the_same_port_number(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    harnesses = [SandboxHarness(sandbox, tmp_path, slot) for slot in range(3)]
    environment = {"FIRST": "{address}", "SECOND": "{address}", "PLAIN": "x"}
    ports = (SandboxPort(number=8462, protocol=Greeter, environment=environment),)
    runs = (harness.run("python3", "-c", CALL, ports=ports) for harness in harnesses)
    for report in await asyncio.gather(*runs):
        assert report.last_lines.split("\n")[:2] == ["hello FIRST", "hello SECOND"]


async def test_a_start_with_ports_can_be_cancelled_at_any_moment_and_leaves_nothing(
    harness: SandboxHarness,
) -> None:
    marker = ProcessMarker()
    before = set(Path("/proc/self/fd").iterdir())
    ports = (SandboxPort(number=8462, protocol=Greeter),)
    for step in range(20):
        running = harness.start(marker.sleeper(), ports=ports)
        await asyncio.wait({running}, timeout=step * 0.004)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert marker.processes() == []
    await harness.close()
    assert set(Path("/proc/self/fd").iterdir()) == before


async def test_several_run_at_the_same_time(sandbox: Sandbox, tmp_path: Path) -> None:
    harnesses = [SandboxHarness(sandbox, tmp_path, slot) for slot in range(4)]
    runs = [
        harness.shell(f"echo {harness.slot} > mine; sleep 0.05; cat mine") for harness in harnesses
    ]
    reports = await asyncio.gather(*runs)
    assert [report.last_lines for report in reports] == ["0", "1", "2", "3"]
