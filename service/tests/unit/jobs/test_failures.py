"""How an exception ends a run."""

import asyncio
import errno
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.inventory.index.process import IndexFailure
from agentjobs.platforms.http.responses import ApiError
from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.database import StoreUnavailable
from agentjobs.tickets.protocol import TicketNotFound, TrackerUnavailable
from agentjobs_runtime.git.process import GitError, GitTimeout
from agentjobs_runtime.mirrors.errors import (
    BaseBranchMissing,
    PushRejected,
    RepoUnavailable,
    UnsafeChange,
)
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    DiskFull,
    EnvironmentFailed,
    Failed,
    JobFailed,
    LimitExceeded,
    LostSandbox,
    Outage,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_runtime.repo_configuration import ConfigurationError
from agentjobs_worker.run.failures import to_outcome
from agentjobs_worker.sandbox.protocol import (
    HostExhausted,
    ImageUnavailable,
    SandboxLost,
    SandboxUnavailable,
    UnusableResult,
)
from tests.support.run_fields import RunFields


async def _unavailable(*_: Any) -> None:
    raise StoreUnavailable("away")


def outcome(
    error: Exception,
    *,
    transact: Callable[..., Awaitable[None]] = _unavailable,
    **job: Any,
) -> Outcome:
    """Of a job on the branch `work` of a repository with the default branch `main`."""
    fields = {
        "repo": "a/b",
        "repo_id": "repo_1",
        "platform_key": "local",
        "branch": "work",
        "default_branch": "main",
        "connection_id": None,
        "follows": None,
        "kept_at": None,
        "refusal_key": "refused:repo_1",
    }
    run: Any = RunFields(
        job=SimpleNamespace(**{**fields, **job}),
        settings=SimpleNamespace(
            data_dir="/var/agentjobs",
            data_path=Path("/"),
            disk_floor_mib=8,
            lost_worker_retries=2,
        ),
        log=SimpleNamespace(
            redact=lambda text: text.replace("hunter2", "[redacted]"), note=lambda _: None
        ),
        db=SimpleNamespace(transact=transact),
    )
    return asyncio.run(to_outcome(error, run))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobFailed("timeout", "too slow"), "timeout"),
        (UnsafeChange("protected_path", "CI"), "protected_path"),
        (ConfigurationError("bad"), "invalid_configuration"),
        (TicketNotFound("ABC-1"), "ticket_not_found"),
        (RepoUnavailable("away"), "repo_unavailable"),
        (PushRejected("no"), "push_rejected"),
        (SandboxUnavailable("no bwrap"), "sandbox_error"),
        (ImageUnavailable("no such image"), "environment_failed"),
        (UnusableResult("it contains a device"), "unsafe_change"),
        (IndexFailure("too large"), "sandbox_error"),
        (OSError(5, "Input/output error"), "sandbox_error"),
        (PlatformError("no"), "forge_error"),
        (PlatformError("not there", "gone"), "repo_unavailable"),
        (BaseBranchMissing("main"), "repo_unavailable"),
        (BaseBranchMissing("topic"), "invalid_configuration"),
        (BaseBranchMissing("work"), "forge_error"),
        (ValueError("a bug"), "sandbox_error"),
    ],
)
def test_every_error_has_its_code(error: Exception, code: str) -> None:
    result = outcome(error)
    assert isinstance(result, Failed)
    assert result.code == code


def _full_quota() -> Exception:
    """As a checkout raises it after a wait for those of its organization."""
    try:
        raise RepoUnavailable("too little is left") from OSError(errno.EDQUOT, "quota exceeded")
    except RepoUnavailable as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        GitError(("add",), 128, "fatal: unable to write file: No space left on device"),
        RepoUnavailable("the checkout cannot be written: No space left on device"),
        _full_quota(),
    ],
)
def test_a_full_disk_is_not_the_jobs_fault(error: Exception) -> None:
    result = outcome(error)
    assert isinstance(result, DiskFull)
    assert result.failure.message.startswith("The disk of the worker is full: ")
    assert result.max_attempts == 3


def _wrapped(error: Exception) -> Exception:
    """As the mirror raises it."""
    try:
        try:
            raise error
        except GitError:
            raise RepoUnavailable("the repository cannot be fetched") from None
    except RepoUnavailable as outer:
        return outer


NO_PROCESS = "Resource temporarily unavailable"


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(errno.EAGAIN, NO_PROCESS),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
        GitError(("commit",), 128, f"fatal: fork failed: {NO_PROCESS}"),
        _wrapped(GitError(("fetch",), 128, f"fatal: cannot fork() for index-pack: {NO_PROCESS}")),
        GitError(("add",), -signal.SIGKILL, ""),
        HostExhausted("the machine has no processes left"),
    ],
)
def test_a_machine_without_processes_or_memory_is_not_the_jobs_fault(error: Exception) -> None:
    result = outcome(error)
    assert isinstance(result, LostSandbox)
    assert result.is_host_exhausted
    assert result.failure.message.startswith("The machine of the worker is exhausted: ")


@pytest.mark.parametrize(
    "error",
    [
        JobFailed("agent_failed", "sh: 1: Cannot fork"),
        GitError(("fetch",), 128, f"remote: fatal: fork failed: {NO_PROCESS}\nfatal: early EOF"),
        GitError(("fetch",), 128, "fatal: Out of memory, malloc failed"),
        GitTimeout(("add",), -signal.SIGKILL, "timed out after 120 s"),
        EnvironmentFailed("The setup failed. Its last lines:\ncp: No space left on device"),
    ],
)
def test_what_an_agent_or_a_remote_writes_is_not_believed(error: Exception) -> None:
    assert isinstance(outcome(error), Failed)


def test_an_agent_that_fails_while_the_disk_is_full_is_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = JobFailed("agent_failed", "cannot write")
    assert outcome(failed) == Failed("agent_failed", "cannot write")
    no_space = SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=1)
    monkeypatch.setattr(os, "statvfs", lambda _: no_space)
    assert outcome(failed) == DiskFull(
        Failed("agent_failed", "The disk of the worker is full: cannot write"), max_attempts=3
    )
    fills_it = LimitExceeded("agent_failed", "The agent used more than the free disk space.")
    assert isinstance(outcome(fills_it), Failed)


def test_an_agent_that_reports_a_full_disk_is_not_run_again() -> None:
    # Its temporary directory is in memory, and it may print anything.
    failed = JobFailed("agent_failed", "cp: error writing '/tmp/x': No space left on device")
    assert isinstance(outcome(failed), Failed)


def test_a_sandbox_that_something_outside_ended_is_not_the_jobs_fault() -> None:
    result = outcome(SandboxLost("the pod was evicted: the node has hunter2 memory"))
    message = "The sandbox was lost: the pod was evicted: the node has [redacted] memory."
    assert result == LostSandbox(Failed("sandbox_error", message))


@pytest.mark.parametrize(
    ("error", "platform_key", "expected"),
    [
        (
            RepoUnavailable("refused", is_temporary=True, is_host_unreachable=True),
            "local",
            Outage("local", "refused"),
        ),
        (RepoUnavailable("HTTP 502", is_temporary=True), "con_1", Outage("repo_1", "HTTP 502")),
        (
            PlatformError("no route, hunter2", "away"),
            "con_1",
            Outage("con_1", "no route, [redacted]"),
        ),
        (
            ApiError("rate limit", "away", retry_after_seconds=60.0),
            "con_1",
            Outage("con_1", "rate limit", 60.0),
        ),
    ],
)
def test_a_job_waits_for_a_platform_that_does_not_respond(
    error: Exception, platform_key: str, expected: Outage
) -> None:
    assert outcome(error, platform_key=platform_key) == Unreachable(expected)


def test_a_platform_that_responds_with_nonsense_is_waited_for() -> None:
    error = PlatformError("returned a web page", "unusable")
    result = outcome(error, platform_key="con_1")
    # Other repositories of the connection may work.
    assert result == Unreachable(Outage("repo_1", "returned a web page"))


def test_a_job_waits_for_a_tracker_that_does_not_respond() -> None:
    error = TrackerUnavailable("jira: no route, hunter2", "trk_1", 60.0)
    assert outcome(error) == Unreachable(Outage("trk_1", "jira: no route, [redacted]", 60.0))


def test_a_lost_claim_abandons_the_run_and_a_lost_database_releases_it() -> None:
    assert outcome(ClaimLost()) == Abandoned()
    assert outcome(StoreUnavailable("away")) == Released()


def test_ctrl_c_that_reaches_a_starting_process_requeues_the_job() -> None:
    assert outcome(GitError(("fetch",), -signal.SIGINT, "")) == Released()


def test_messages_show_neither_secrets_nor_the_services_paths() -> None:
    result = outcome(RepoUnavailable("cannot read /var/agentjobs/mirrors with hunter2"))
    assert result == Failed("repo_unavailable", "cannot read …/mirrors with [redacted]")


def test_an_unexpected_error_is_not_shown_to_clients(caplog: pytest.LogCaptureFixture) -> None:
    result = outcome(ValueError("internal detail"))
    assert isinstance(result, Failed)
    assert "internal detail" not in result.message
    assert "internal detail" in caplog.text
