"""What every sandbox promises, whatever it is made of."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agentjobs.agents.builtin_agents import python_files
from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.process import ProcessSandbox
from agentjobs.sandbox.protocol import Door, Sandbox, SandboxError
from tests.support.sandbox import Mark, Room, eventually

MIB = 1024 * 1024


@pytest.fixture(params=["bubblewrap", "none"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return BubblewrapSandbox(900_000) if request.param == "bubblewrap" else ProcessSandbox()


@pytest.fixture
def room(sandbox: Sandbox, tmp_path: Path) -> Room:
    return Room(sandbox, tmp_path)


async def test_it_can_be_tried_out_before_any_job(sandbox: Sandbox) -> None:
    await sandbox.check()


async def test_a_command_that_ends_well_reports_exit_code_zero(room: Room) -> None:
    report = await room.shell("echo done")
    assert (report.exit_code, report.timed_out, report.last_lines) == (0, False, "done")
    assert report.duration_ms < 10_000


async def test_a_failing_command_reports_its_exit_code_and_last_lines(room: Room) -> None:
    report = await room.shell("seq 1 100; echo 'it broke' >&2; exit 3")
    assert report.exit_code == 3
    assert report.last_lines.splitlines() == [*map(str, range(82, 101)), "it broke"]


async def test_a_command_killed_by_a_signal_reports_it_as_a_shell_does(room: Room) -> None:
    assert (await room.shell("kill -9 $$")).exit_code == 137


async def test_a_command_that_does_not_exist_is_the_agents_failure(room: Room) -> None:
    report = await room.run("no-such-agent")
    assert report.exit_code == 127
    assert "no-such-agent: not found" in report.last_lines


async def test_both_streams_arrive_merged_and_in_order(room: Room) -> None:
    await room.shell("echo 1; echo 2 >&2; echo 3; printf 4 >&2")
    assert room.output == b"1\n2\n3\n4"


async def test_output_arrives_while_the_command_runs(room: Room) -> None:
    running = room.start("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second")
    await room.heard(b"first\n")
    (room.workspace / "go").touch()
    await running
    assert room.output == b"first\nsecond\n"


async def test_the_workspace_is_the_working_directory_and_keeps_what_is_written(
    room: Room,
) -> None:
    (room.workspace / "in.txt").write_text("before")
    await room.shell('cat in.txt; echo after > out.txt; [ "$PWD" = "$(pwd)" ]')
    assert room.output == b"before"
    assert (room.workspace / "out.txt").read_text() == "after\n"


async def test_the_job_can_be_read_and_the_report_written(room: Room) -> None:
    report = await room.shell('cat "$AGENTJOBS_JOB"; echo Title > "$AGENTJOBS_REPORT"')
    assert report.exit_code == 0
    assert room.output == b'{"job_id": "job_1"}'
    assert (room.report_dir / "pull_request.md").read_text() == "Title\n"


async def test_the_environment_is_the_tasks_and_not_the_services(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTJOBS_DATABASE_URL", "postgresql://secret")
    environment = {"GREETING": "two\nlines \N{SNOWMAN} $HOME", "AGENTJOBS_PROMPT": "x" * 65_536}
    report = await room.shell(
        'printf "%s|%s" "$GREETING" "${#AGENTJOBS_PROMPT}"; env -0 | grep -zq secret',
        environment=environment,
    )
    assert room.output.decode() == "two\nlines \N{SNOWMAN} $HOME|65536"
    assert report.exit_code == 1


async def test_home_and_temporary_directory_are_private_and_gone_afterwards(room: Room) -> None:
    first = await room.shell('touch "$HOME/a" "$TMPDIR/b" && echo "$HOME"')
    assert first.exit_code == 0
    assert not Path(first.last_lines, "a").exists()
    assert (await room.shell('ls -A "$HOME" "$TMPDIR" | grep -x "[ab]"')).exit_code == 1


async def test_standard_input_is_empty(room: Room) -> None:
    assert (await room.shell("cat")).exit_code == 0


async def test_the_wall_clock_ends_a_command_that_ignores_signals(room: Room) -> None:
    mark = Mark()
    started = time.monotonic()
    report = await room.shell(
        f"trap '' TERM INT HUP; echo on; {mark.sleeper()}", timeout_seconds=0.5
    )
    assert (report.exit_code, report.timed_out, report.last_lines) == (None, True, "on")
    assert time.monotonic() - started < 1.5
    assert mark.processes() == []


async def test_cancelling_kills_everything_within_a_second(room: Room) -> None:
    mark = Mark()
    running = room.start(
        f"trap '' TERM; {mark.sleeper()} & {mark.sleeper()} & echo up; {mark.sleeper()}"
    )
    await room.heard(b"up")
    await eventually(lambda: len(mark.processes()) >= 3)
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 1
    assert mark.processes() == []


async def test_cancelling_again_and_again_still_waits_for_the_end(room: Room) -> None:
    mark = Mark()
    running = room.start(f"echo up; {mark.sleeper()}")
    await room.heard(b"up")
    while not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=0.0001)
    assert running.cancelled()
    assert mark.processes() == []


async def test_a_start_can_be_cancelled_at_any_moment_and_leaves_nothing(room: Room) -> None:
    mark = Mark()
    for step in range(30):
        running = room.start(mark.sleeper())
        await asyncio.wait({running}, timeout=step * 0.0004)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert mark.processes() == []


async def test_what_stays_in_the_background_does_not_outlive_the_command(room: Room) -> None:
    mark = Mark()
    started = time.monotonic()
    report = await room.shell(f"{mark.sleeper()} & echo done")
    assert report.exit_code == 0
    assert time.monotonic() - started < 5
    assert mark.processes() == []


async def test_endless_output_costs_neither_memory_nor_the_event_loop(room: Room) -> None:
    received = 0
    turns = 0

    def count(chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    running = asyncio.ensure_future(room.sandbox.run(room.task("yes", timeout_seconds=0.5), count))
    while not running.done():
        await asyncio.wait({running}, timeout=0.001)
        turns += 1
    report = running.result()
    assert report.timed_out
    assert 100_000 < received < 20_000_000
    assert turns > 20
    assert len(report.last_lines) <= 4_096


async def test_all_of_a_large_output_arrives(room: Room) -> None:
    await room.shell("seq 1 200000")
    assert room.output == "".join(f"{number}\n" for number in range(1, 200_001)).encode()


async def test_closing_its_output_does_not_end_a_command(room: Room) -> None:
    report = await room.shell("exec >&- 2>&-; sleep 0.05; exit 4")
    assert report.exit_code == 4


async def test_an_error_of_the_listener_ends_the_command_and_is_raised(room: Room) -> None:
    mark = Mark()

    def refuse(_chunk: bytes) -> None:
        raise RuntimeError("no room for a log")

    with pytest.raises(RuntimeError, match="no room for a log"):
        await room.sandbox.run(room.task("sh", "-c", f"echo x; {mark.sleeper()}"), refuse)
    assert mark.processes() == []


async def test_a_workspace_that_is_not_there_is_the_sandboxes_error(room: Room) -> None:
    with pytest.raises(SandboxError, match="missing"):
        await room.run("true", workspace=room.private / "missing")


async def test_a_nul_in_the_environment_is_refused(room: Room) -> None:
    with pytest.raises(SandboxError):
        await room.run("true", environment={"X": "a\0--bind\0/\0/host"})


async def test_no_descriptor_of_the_service_is_left_open_or_handed_on(room: Room) -> None:
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    before = set(Path("/proc/self/fd").iterdir())
    await room.shell("for fd in /proc/self/fd/*; do echo ${fd##*/}; done; exit 0")
    with pytest.raises(SandboxError):
        await room.run("true", workspace=room.private / "missing")
    assert set(Path("/proc/self/fd").iterdir()) == before
    os.close(secret)
    assert set(room.output.split()) <= {b"0", b"1", b"2", b"3"}


async def test_a_file_cannot_grow_without_bound(room: Room) -> None:
    report = await room.shell("head -c 3000000 /dev/zero > big", limits=Limits(file_bytes=MIB))
    assert report.exit_code == 128 + signal.SIGXFSZ
    assert (room.workspace / "big").stat().st_size == MIB


async def test_a_workspace_cannot_grow_without_bound(room: Room) -> None:
    mark = Mark()
    script = f"while n=x$n; do head -c 4000000 /dev/zero > $n; sync $n; done; : {mark.word}"
    report = await room.shell(script, limits=Limits(workspace_bytes=32 * MIB))
    assert (report.exceeded, report.exit_code) == ("32 MiB in the workspace", None)
    assert not report.timed_out
    assert mark.processes() == []


async def test_a_workspace_within_its_bounds_is_left_alone(room: Room) -> None:
    (room.workspace / "given").write_bytes(bytes(4 * MIB))
    script = "for n in 1 2 3; do head -c 4000000 /dev/zero > big; sync big; sleep 0.2; done"
    report = await room.shell(script, limits=Limits(workspace_bytes=32 * MIB))
    assert (report.exceeded, report.exit_code) == (None, 0)


async def test_a_report_of_an_ordinary_end_names_no_limit(room: Room) -> None:
    assert (await room.shell("exit 3")).exceeded is None


class Greeter(asyncio.Protocol):
    """Answers each line with the same line and a greeting."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"hello " + data)


CALL = """
import os, socket
for name in ("FIRST", "SECOND"):
    host, _, port = os.environ[name].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as door:
        door.sendall(name.encode())
        print(door.recv(100).decode())
print(os.environ["PLAIN"])
"""


async def test_doors_are_answered_by_the_service_at_the_address_it_names(room: Room) -> None:
    doors = (
        Door(port=8462, protocol=Greeter, environment={"FIRST": "{address}", "PLAIN": "{token}"}),
        Door(port=3128, protocol=Greeter, environment={"SECOND": "tcp://{address}"}),
    )
    report = await room.run(sys.executable, "-c", CALL, read_only=python_files(), doors=doors)
    assert report.last_lines.split("\n") == ["hello FIRST", "hello SECOND", "{token}"]


async def test_the_address_of_a_door_cannot_be_changed_by_the_definition(room: Room) -> None:
    door = Door(port=8462, protocol=Greeter, environment={"PROXY": "{address}"})
    report = await room.shell('echo "$PROXY"', environment={"PROXY": "evil:1"}, doors=(door,))
    assert report.last_lines.startswith("127.0.0.1:")


async def test_the_same_port_can_be_a_door_of_several_at_once(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    rooms = [Room(sandbox, tmp_path, slot) for slot in range(3)]
    environment = {"FIRST": "{address}", "SECOND": "{address}", "PLAIN": "x"}
    doors = (Door(port=8462, protocol=Greeter, environment=environment),)
    python = (sys.executable, "-c", CALL)
    runs = (room.run(*python, read_only=python_files(), doors=doors) for room in rooms)
    for report in await asyncio.gather(*runs):
        assert report.last_lines.split("\n")[:2] == ["hello FIRST", "hello SECOND"]


async def test_a_start_with_doors_can_be_cancelled_at_any_moment_and_leaves_nothing(
    room: Room,
) -> None:
    mark = Mark()
    await room.shell("true")
    before = set(Path("/proc/self/fd").iterdir())
    doors = (Door(port=8462, protocol=Greeter),)
    for step in range(20):
        running = room.start(mark.sleeper(), doors=doors)
        await asyncio.wait({running}, timeout=step * 0.004)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert mark.processes() == []
    assert set(Path("/proc/self/fd").iterdir()) == before


async def test_several_run_at_the_same_time(sandbox: Sandbox, tmp_path: Path) -> None:
    rooms = [Room(sandbox, tmp_path, slot) for slot in range(4)]
    runs = [room.shell(f"echo {room.slot} > mine; sleep 0.05; cat mine") for room in rooms]
    reports = await asyncio.gather(*runs)
    assert [report.last_lines for report in reports] == ["0", "1", "2", "3"]
