"""Limits end an agent that exceeds them and leave others alone."""

import asyncio
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.priority import (
    MAX_USUAL_SESSIONS,
    SessionPriorities,
    lowered_priority,
)
from agentjobs_worker.sandbox.protocol import SandboxReport
from agentjobs_worker.sandbox.usage import ProcessStat, ProcessUsage
from tests.support.sandbox import ProcessMarker, SandboxHarness, unused_uid_base

MIB = 1024 * 1024
CAP_SYS_RESOURCE = 1 << 24
FOREVER = "\nimport time\nprint('holding', flush=True)\ntime.sleep(1000)\n"


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


async def python(harness: SandboxHarness, script: str, **limits: int) -> SandboxReport:
    return await harness.run(
        *(sys.executable, "-c", script), read_only=python_files(), limits=Limits(**limits)
    )


def assert_exceeded(report: SandboxReport, limit: str) -> None:
    assert (report.exceeded, report.exit_code, report.timed_out) == (limit, None, False)


async def test_a_process_that_takes_too_much_memory_is_ended(harness: SandboxHarness) -> None:
    report = await python(harness, f"x = bytearray(150 * {MIB}){FOREVER}", memory_bytes=100 * MIB)
    assert_exceeded(report, "100 MiB of memory")


async def test_processes_that_take_too_much_memory_together_are_ended(
    harness: SandboxHarness,
) -> None:
    marker = ProcessMarker()
    script = f"""
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = bytearray(40 * {MIB})
        time.sleep(1000)
time.sleep(1000)
"""
    running = asyncio.ensure_future(
        python(harness, script + f"# {marker.text}", memory_bytes=120 * MIB)
    )
    assert_exceeded(await running, "120 MiB of memory")
    assert marker.processes() == []


async def test_memory_of_an_agent_is_not_read_while_it_sleeps_and_is_read_when_it_wakes_up(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_at = []
    measure = ProcessUsage._measure

    def count(usage: ProcessUsage, processes: dict[str, ProcessStat]) -> str | None:
        measured_at.append(time.monotonic())
        return measure(usage, processes)

    monkeypatch.setattr(ProcessUsage, "_measure", count)
    script = f"import time\ntime.sleep(2)\nx = bytearray(150 * {MIB}){FOREVER}"
    assert_exceeded(await python(harness, script, memory_bytes=100 * MIB), "100 MiB of memory")
    assert max(later - earlier for earlier, later in itertools.pairwise(measured_at)) > 1


async def test_files_in_scratch_space_count_as_memory(harness: SandboxHarness) -> None:
    script = "head -c 60000000 /dev/zero > /tmp/a; head -c 60000000 /dev/zero > $HOME/b; sleep 1000"
    assert_exceeded(
        await harness.shell(script, limits=Limits(memory_bytes=100 * MIB)), "100 MiB of memory"
    )


async def test_memory_that_processes_share_counts_once(harness: SandboxHarness) -> None:
    script = f"""
import mmap, os, time
shared = mmap.mmap(-1, 60 * {MIB})
shared.write(bytes(60 * {MIB}))
for _ in range(4):
    if os.fork() == 0:
        shared[::4096]
        time.sleep(0.6)
        os._exit(0)
for _ in range(4):
    os.wait()
"""
    report = await python(harness, script, memory_bytes=150 * MIB)
    assert (report.exit_code, report.exceeded) == (0, None)


async def test_a_mapped_file_in_scratch_space_counts_once(harness: SandboxHarness) -> None:
    script = f"""
import mmap, time
with open("/dev/shm/mapped", "w+b") as file:
    file.truncate(60 * {MIB})
    mapped = mmap.mmap(file.fileno(), 0)
    mapped.write(bytes(60 * {MIB}))
time.sleep(0.4)
"""
    report = await python(harness, script, memory_bytes=100 * MIB)
    assert (report.exit_code, report.exceeded) == (0, None)


async def test_new_sessions_of_an_agent_get_a_lower_share_where_sessions_have_one(
    harness: SandboxHarness,
) -> None:
    enabled = Path("/proc/sys/kernel/sched_autogroup_enabled")
    if not enabled.exists() or enabled.read_text() == "0\n":
        assert not SessionPriorities(-1).is_needed
        return
    script = """
sleep 1000 & for n in $(seq $1); do setsid sleep 1000 & done
echo 0 >/proc/self/autogroup
until grep "nice $2" /proc/self/autogroup; do sleep 0.05; done
"""
    usual = lowered_priority()
    for sessions, nice in ((1, usual), (MAX_USUAL_SESSIONS, 19)):
        report = await harness.run("sh", "-c", script, "sh", str(sessions), str(nice))
        assert report.exit_code == 0, report.last_lines


async def test_exceeding_the_cpu_time_ends_all_processes(harness: SandboxHarness) -> None:
    limits = Limits(cpu_seconds=1)
    report = await harness.shell("while :; do :; done", limits=limits, timeout_seconds=300)
    assert_exceeded(report, "1 second of CPU time")


async def test_cpu_time_of_all_processes_is_added_up(harness: SandboxHarness) -> None:
    script = "for n in 1 2 3 4; do (while :; do :; done) & done; wait"
    assert_exceeded(
        await harness.shell(script, limits=Limits(cpu_seconds=2)), "2 seconds of CPU time"
    )


async def test_cpu_time_of_short_lived_children_counts(harness: SandboxHarness) -> None:
    script = "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done"
    assert_exceeded(
        await harness.shell(script, limits=Limits(cpu_seconds=1)), "1 second of CPU time"
    )


async def test_cpu_time_of_children_that_nobody_waits_for_counts(harness: SandboxHarness) -> None:
    script = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.4
        while time.process_time() < end:
            pass
        os._exit(0)
    time.sleep(0.4)
"""
    assert_exceeded(await python(harness, script, cpu_seconds=1), "1 second of CPU time")


async def test_a_waiting_agent_uses_no_cpu_time(harness: SandboxHarness) -> None:
    report = await harness.shell("sleep 1.5", limits=Limits(cpu_seconds=1))
    assert (report.exit_code, report.exceeded) == (0, None)


async def test_files_in_a_closed_directory_count_for_the_workspace(harness: SandboxHarness) -> None:
    script = f"""
import os
os.mkdir("closed")
with open("closed/big", "wb") as file:
    file.write(bytes(40 * {MIB}))
    os.fsync(file.fileno())
os.chmod("closed", 0)
{FOREVER}
"""
    report = await python(harness, script, workspace_bytes=32 * MIB)
    assert_exceeded(report, "32 MiB in the workspace")


async def test_deleted_files_that_are_still_open_count_for_the_workspace(
    harness: SandboxHarness,
) -> None:
    script = f"""
import os
file = open("big", "wb")
os.unlink("big")
file.write(bytes(40 * {MIB}))
os.fsync(file.fileno())
{FOREVER}
"""
    report = await python(harness, script, workspace_bytes=32 * MIB)
    assert_exceeded(report, "32 MiB in the workspace")


async def test_deleted_files_that_are_still_mapped_count_for_the_workspace(
    harness: SandboxHarness,
) -> None:
    script = f"""
import mmap, os
with open("big", "w+b") as file:
    os.unlink("big")
    file.truncate(40 * {MIB})
    mapped = mmap.mmap(file.fileno(), 0)
# Python keeps a copy of the descriptor, and C does not.
os.closerange(3, 64)
mapped.write(bytes(40 * {MIB}))
mapped.flush()
{FOREVER}
"""
    report = await python(harness, script, workspace_bytes=32 * MIB)
    assert_exceeded(report, "32 MiB in the workspace")


async def test_deleted_files_in_flight_between_processes_count_for_the_workspace(
    harness: SandboxHarness,
) -> None:
    script = f"""
import os, socket
left, right = socket.socketpair()
with open("big", "wb") as file:
    os.unlink("big")
    file.write(bytes(40 * {MIB}))
    os.fsync(file.fileno())
    socket.send_fds(left, [b"x"], [file.fileno()])
{FOREVER}
"""
    report = await python(harness, script, workspace_bytes=32 * MIB)
    assert_exceeded(report, "32 MiB in the workspace")


async def test_deleted_files_of_a_process_whose_first_thread_has_ended_count(
    harness: SandboxHarness,
) -> None:
    script = f"""
import ctypes, os, threading
def write():
    while " Z " not in open("/proc/self/stat").read():
        pass
    file = open("big", "wb")
    os.unlink("big")
    file.write(bytes(40 * {MIB}))
    os.fsync(file.fileno())
    threading.Event().wait()
threading.Thread(target=write).start()
ctypes.CDLL(None).syscall({{"x86_64": 60}}.get(os.uname().machine, 93), 0)
"""
    report = await python(harness, script, workspace_bytes=32 * MIB)
    assert_exceeded(report, "32 MiB in the workspace")


async def test_an_agent_that_uses_little_continues_on_a_nearly_full_disk(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    # As if the disk were nearly full already.
    floor = 4 * status.f_bavail * status.f_frsize
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), disk_floor_bytes=floor), tmp_path)
    limits = Limits(workspace_bytes=0)
    report = await harness.shell("echo x > small; sleep 0.5", limits=limits)
    assert (report.exit_code, report.exceeded) == (0, None)


async def test_empty_files_count_too(harness: SandboxHarness) -> None:
    script = "import itertools\nfor n in itertools.count(): open(f'{PLACE}/{n}', 'w').close()"
    report = await python(harness, script.replace("{PLACE}", "."), workspace_bytes=4 * MIB)
    assert_exceeded(report, "4 MiB in the workspace")
    report = await python(harness, script.replace("{PLACE}", "/tmp"), memory_bytes=32 * MIB)
    assert_exceeded(report, "32 MiB of memory")


async def test_a_link_out_of_the_workspace_is_not_followed(harness: SandboxHarness) -> None:
    outside = harness.private / "outside"
    outside.mkdir()
    (outside / "large").write_bytes(bytes(40 * MIB))
    report = await harness.shell(
        f"ln -s {outside} {outside}/large .; head -c 8000000 /dev/zero > x; sync x; sleep 0.3",
        limits=Limits(workspace_bytes=32 * MIB),
    )
    assert (report.exit_code, report.exceeded) == (0, None)


@pytest.mark.parametrize("directory", ["${AGENTJOBS_REPORT%/*}", "$AGENTJOBS_ARTIFACTS"])
async def test_the_directories_for_results_count_for_the_workspace(
    harness: SandboxHarness, directory: str
) -> None:
    report = await harness.shell(
        f'cd "{directory}"; head -c 40000000 /dev/zero > big; sync big; sleep 1000',
        limits=Limits(workspace_bytes=32 * MIB),
    )
    assert_exceeded(report, "32 MiB in the workspace")


async def test_a_sandbox_without_limits_runs_unwatched(harness: SandboxHarness) -> None:
    none = Limits(
        memory_bytes=0,
        processes=0,
        file_bytes=0,
        scratch_bytes=0,
        workspace_bytes=0,
        cpu_seconds=0,
    )
    report = await harness.shell(
        "ulimit -f; ulimit -t; head -c 3000000 /dev/zero > /tmp/x", limits=none
    )
    assert (report.exit_code, report.last_lines) == (0, "unlimited\nunlimited")


async def test_a_daemon_beside_a_greedy_process_dies_too(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    script = f"setsid -f {marker.sleeper()}; head -c 50000000 /dev/zero > /tmp/x; sleep 1000"
    report = await harness.shell(script, limits=Limits(memory_bytes=32 * MIB))
    assert_exceeded(report, "32 MiB of memory")
    assert marker.processes() == []


async def test_an_rlimit_ends_a_process_that_the_watchdog_misses(harness: SandboxHarness) -> None:
    report = await harness.shell("ulimit -t", limits=Limits(cpu_seconds=5))
    assert report.last_lines == "7"


async def test_many_greedy_agents_at_once_are_all_ended(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox(unused_uid_base())
    harnesses = [SandboxHarness(sandbox, tmp_path, slot) for slot in range(4)]
    limits = Limits(memory_bytes=32 * MIB)
    script = "head -c 50000000 /dev/zero > /tmp/x; sleep 1000"
    for report in await asyncio.gather(
        *(harness.shell(script, limits=limits) for harness in harnesses)
    ):
        assert_exceeded(report, "32 MiB of memory")


async def test_a_watched_fork_bomb_ends_at_the_timeout(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    report = await harness.shell(
        f"bomb() {{ {marker.sleeper()} & bomb & bomb; }}; bomb",
        timeout_seconds=1,
        limits=Limits(processes=128, memory_bytes=2048 * MIB, cpu_seconds=600),
    )
    assert report.timed_out or report.exit_code not in (0, None)
    assert marker.processes() == []


async def test_the_kernel_kills_the_agent_before_the_service_when_memory_runs_out(
    harness: SandboxHarness,
) -> None:
    adjustment = "/proc/self/oom_score_adj"
    await harness.shell(f"cat {adjustment}; echo 0 > {adjustment}; cat {adjustment}")
    assert harness.output.split()[0] == b"500"
    capabilities = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    if os.geteuid() == 0 and int(capabilities, 16) & CAP_SYS_RESOURCE:
        assert harness.output.split()[-1] == b"500"


async def test_the_file_size_limit_ends_only_the_writing_process(harness: SandboxHarness) -> None:
    report = await harness.shell(
        "head -c 3000000 /dev/zero > big; echo $?", limits=Limits(file_bytes=MIB)
    )
    assert report.last_lines.split("\n")[-1] == str(128 + signal.SIGXFSZ)
