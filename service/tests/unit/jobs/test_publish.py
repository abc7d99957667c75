"""What becomes of finished work when its platform or the database does not accept it."""

import asyncio
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.jobs.queue.warnings import add_warnings
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing import publish as publish_module
from agentjobs.publishing.publish import Publication, publish
from agentjobs.pulls.finished_branches import record_finished_branch
from agentjobs.repos.queues import request_sync
from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime.git.process import GitError, GitTimeout
from agentjobs_runtime.mirrors.errors import PushDenied, PushRejected, RepoUnavailable
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    DiskFull,
    Failed,
    Outage,
    Outcome,
    Released,
    Unreachable,
)
from tests.support.run_fields import RunFields

AWAY = RepoUnavailable("no route to hunter2", is_temporary=True, is_host_unreachable=True)


class Run:
    """A job with finished work, and the part of its context that publishing uses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **job: Any) -> None:
        self.notes: list[str] = []
        self.phases: list[str] = []
        self.warnings: list[str] = []
        self.syncs = 0
        self.branches: list[tuple[Any, ...]] = []
        self._monkeypatch = monkeypatch
        fields = {
            "repo": "a/b",
            "repo_id": "repo_1",
            "platform_key": "con_1",
            "refusal_key": "refused:repo_1",
            "branch": "work",
            "default_branch": "main",
            "connection_id": None,
            "follows": None,
        }
        self.context: Any = RunFields(
            job=SimpleNamespace(**{**fields, **job}),
            db=SimpleNamespace(transact=self._transact),
            settings=SimpleNamespace(
                data_path=Path("/"), data_dir="/var/agentjobs", disk_floor_mib=8
            ),
            phases=SimpleNamespace(begin=self.phases.append),
            log=SimpleNamespace(
                note=self.notes.append, redact=lambda text: text.replace("hunter2", "[redacted]")
            ),
        )

    async def _transact(self, work: object, first: object, *others: Any) -> None:
        if work is add_warnings:
            self.warnings += others[0]
        elif work is request_sync:
            self.syncs += 1
        else:
            assert work is record_finished_branch
            self.branches.append((first, *others[:2]))

    def end(self, error: Exception, *, pushed_commit: str | None = None) -> Outcome:
        async def fail(_: Publication) -> None:
            raise error

        self._monkeypatch.setattr(publish_module, "_publish", fail)
        return asyncio.run(publish(Publication(self.context, pushed_commit)))


def test_work_waits_for_a_platform_that_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    assert run.end(AWAY) == Unreachable(Outage("con_1", "no route to [redacted]"))
    assert run.phases == ["publishing"]
    assert run.warnings == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [(StoreUnavailable("restarting"), Released()), (ClaimLost(), Abandoned())],
)
def test_work_stays_kept_without_the_database_or_the_claim(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: Outcome
) -> None:
    assert Run(monkeypatch).end(error) == expected


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EAGAIN, "Resource temporarily unavailable"),
        GitError(("commit-tree",), -9, ""),
        GitTimeout(("commit-tree",), -9, "timed out after 120 s"),
        MemoryError(),
    ],
)
def test_a_shortage_of_the_services_machine_delays_the_work(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run = Run(monkeypatch)
    assert isinstance(run.end(error), DiskFull)
    assert run.phases == ["publishing"]
    assert run.notes[0].startswith("the work waits for the machine of the service")


@pytest.mark.parametrize(
    "error",
    [
        PlatformError("no permission", "denied"),
        PlatformError("The credential was revoked.", "unauthorized"),
        PlatformError("The repository is hidden.", "gone"),
        PlatformError("a web page", "unusable"),
        PushDenied("the push was not allowed: HTTP 403"),
        RepoUnavailable("not found"),
    ],
)
def test_work_that_a_person_can_get_accepted_is_kept_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run = Run(monkeypatch)
    assert run.end(error) == Unreachable(Outage("refused:repo_1", str(error)))
    (warning,) = run.warnings
    assert str(error) in warning
    assert "kept for 24 hours" in warning
    # The connection's page will show the fault too.
    assert run.syncs == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PlatformError("the branch has no commits"), "forge_error"),
        (PushRejected("GH013"), "push_rejected"),
        (ValueError("a bug"), "sandbox_error"),
    ],
)
def test_work_that_is_never_accepted_fails(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    outcome = Run(monkeypatch).end(error)
    assert isinstance(outcome, Failed)
    assert outcome.code == code


def test_a_message_names_neither_secrets_nor_directories_of_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = Run(monkeypatch).end(PushRejected("hunter2 in /var/agentjobs/mirrors"))
    assert outcome == Failed("push_rejected", "[redacted] in …/mirrors")


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"connection_id": "con_1"}, [("repo_1", "work", "2" * 40)]),
        # Its branch has a pull request.
        ({"connection_id": "con_1", "follows": "job_1"}, []),
        # Maintenance reads the branches of `local` repositories.
        ({}, []),
    ],
)
def test_the_branch_of_a_job_that_fails_after_its_push_is_deleted(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, str], expected: list[tuple[str, ...]]
) -> None:
    run = Run(monkeypatch, **job)
    run.end(PlatformError("no"), pushed_commit="2" * 40)
    assert run.branches == expected
