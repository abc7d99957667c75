"""A machine without processes is not the failure of the command, whose own limits are."""

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox import bwrap_command
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.host_shortage import HostShortage
from agentjobs_worker.sandbox.protocol import HostExhausted, SandboxLost
from tests.support.sandbox import SandboxHarness, eventually, processes_with, unused_uid_base

LIMITS = Limits(processes=24)
# The shell itself runs as long as a single process is left for it.
_FORK = "sleep 0.01; sleep 0.01; echo forked"


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


@contextmanager
def running(command: list[str], count: int) -> Iterator[None]:
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
    # Such as the agents of another service on this machine.
    others = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "sleep", "60"]
    with running(others, LIMITS.processes - left), pytest.raises(HostExhausted):
        await harness.shell(_FORK, limits=LIMITS)
    assert (await harness.shell(_FORK, limits=LIMITS)).last_lines == "forked"


@pytest.mark.skipif(os.geteuid() == 0, reason="root is exempt from the limit")
async def test_a_command_is_to_be_run_again_when_the_user_of_the_service_has_no_process_left(
    harness: SandboxHarness,
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NPROC)
    await harness.shell("true")
    with running(["sleep", "60"], 60):
        in_use = HostShortage(os.geteuid(), 0)._tasks_of_user()
        # bwrap has two processes, the shell is the third.
        resource.setrlimit(resource.RLIMIT_NPROC, (in_use + 3, limits[1]))
        try:
            with pytest.raises(HostExhausted):
                await harness.shell(_FORK)
        finally:
            resource.setrlimit(resource.RLIMIT_NPROC, limits)
    assert (await harness.shell(_FORK)).last_lines == "forked"


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        RuntimeError("can't start new thread"),
    ],
)
async def test_a_sandbox_that_the_worker_cannot_start_is_to_be_run_again(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(bwrap_command.subprocess, "Popen", fail)
        with pytest.raises(HostExhausted, match="did not start"):
            await harness.shell("true")
    assert (await harness.shell(_FORK)).last_lines == "forked"


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


async def test_a_command_whose_limits_cannot_be_measured_is_to_be_run_again(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(harness.sandbox._shared.limits_thread, "add", refuse)
    with pytest.raises(HostExhausted):
        await harness.shell("sleep 60")
