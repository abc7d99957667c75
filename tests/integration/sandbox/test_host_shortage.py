"""A machine without processes is not the failure of the command, whose own limits are."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.protocol import HostExhausted, SandboxLost
from tests.support.sandbox import SandboxHarness, eventually, processes_with, unused_uid_base

LIMITS = Limits(processes=24)
# The shell itself runs as long as a single process is left for it.
_FORK = "sleep 0.01; sleep 0.01; echo forked"


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


@contextmanager
def processes_of_user(uid: int, count: int) -> Iterator[None]:
    """Such as the agents of another service on this machine."""
    command = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "sleep", "60"]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of another user")
@pytest.mark.parametrize("left", [0, 1])
async def test_a_command_whose_user_has_no_process_left_is_to_be_run_again(
    harness: SandboxHarness, left: int
) -> None:
    uid = harness.sandbox.owner_uid(0)
    assert uid is not None
    with processes_of_user(uid, LIMITS.processes - left), pytest.raises(HostExhausted):
        await harness.shell(_FORK, limits=LIMITS)
    assert (await harness.shell(_FORK, limits=LIMITS)).last_lines == "forked"


async def test_a_command_that_takes_all_its_processes_fails_by_itself(
    harness: SandboxHarness,
) -> None:
    bomb = "for n in 1 2 3 4 5 6 7 8; do for m in 1 2 3 4 5 6 7 8; do sleep 60 & done; done"
    report = await harness.shell(bomb, limits=LIMITS)
    assert report.exit_code == 2
    assert "Cannot fork" in report.last_lines


async def test_a_sandbox_that_another_process_kills_is_lost(harness: SandboxHarness) -> None:
    running = harness.start("echo up; sleep 60")
    await eventually(lambda: b"up" in harness.output)
    (first,) = _parents(processes_with(harness.workspace))
    os.kill(first, signal.SIGKILL)
    with pytest.raises(SandboxLost, match="another process killed the sandbox"):
        await running


def _parents(pids: list[int]) -> set[int]:
    """Processes outside of a sandbox that have children in it: bwrap."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in pids]
    return {int(stat.split()[1]) for stat in stats} - set(pids)
