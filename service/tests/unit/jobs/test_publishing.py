"""What becomes of finished work while its platform or the database does not respond."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.jobs.queue.warnings import add_warnings
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing import unpublished_work
from agentjobs.publishing.context import FinishedWork
from agentjobs.publishing.unpublished_work import keep_finished_work, publish_or_keep
from agentjobs.repos.queues import request_sync
from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime.mirrors.errors import PushDenied, PushRejected, RepoUnavailable
from agentjobs_runtime.protocol.outcomes import Completed, Kept, KeptWork, Outage
from tests.support.run_fields import RunFields

DONE = Completed("http://x/1", 1, "2" * 40, draft=False)
WORK = FinishedWork("1" * 40, "2" * 40)
AWAY = RepoUnavailable("no route", is_temporary=True, is_host_unreachable=True)


class Run:
    """A run with finished work, and the part of its context that publishing uses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *bundles: bytes | None) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.syncs = 0
        self._bundles = list(bundles)
        monkeypatch.setattr(unpublished_work, "create_bundle", self._create_bundle)
        for pause in ("_FIRST_HOLD_MS", "_MAX_HOLD_MS", "_STORE_PAUSE_SECONDS"):
            monkeypatch.setattr(unpublished_work, pause, 0)
        self.context: Any = RunFields(
            job=SimpleNamespace(
                repo_id="repo_1",
                platform_key="con_1",
                refusal_key="refused:repo_1",
                attempt=0,
            ),
            db=SimpleNamespace(transact=self._transact),
            mirror="/mirror",
            settings=SimpleNamespace(data_path=Path("/"), disk_floor_mib=8),
            log=SimpleNamespace(note=self.notes.append, redact=str),
        )

    async def _transact(self, work: object, _: object, *messages: list[str]) -> None:
        assert work in (add_warnings, request_sync)
        self.warnings += messages[0] if work is add_warnings else []
        self.syncs += work is request_sync

    async def _create_bundle(self, *_: object) -> bytes | None:
        return self._bundles.pop(0)

    async def publish(self, *results: Exception | Completed) -> Completed | Kept:
        remaining = list(results)

        async def publish() -> Completed:
            result = remaining.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        outcome = await publish_or_keep(self.context, WORK, publish)
        assert remaining == []
        return outcome


async def test_work_is_kept_when_its_platform_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, b"bundle")
    work = KeptWork("1" * 40, "2" * 40, b"bundle")
    assert await run.publish(AWAY) == Kept(work, Outage("con_1", "no route"))


async def test_work_that_is_too_large_waits_in_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, None, None)
    assert await run.publish(AWAY, PlatformError("away", "away"), DONE) == DONE


async def test_after_an_hour_the_agent_runs_again_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpublished_work, "_MAX_HOLD_SECONDS", -1)
    run = Run(monkeypatch, None)
    with pytest.raises(RepoUnavailable):
        await run.publish(AWAY)
    (warning,) = run.warnings
    assert "more than 32 MiB" in run.notes[-2]
    assert run.notes[-1] == f"warning: {warning}"
    assert "attempt 1 is lost" in warning


async def test_publishing_waits_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    unavailable = StoreUnavailable("restarting")
    assert await Run(monkeypatch).publish(unavailable, unavailable, DONE) == DONE


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
async def test_work_that_a_person_can_get_accepted_is_kept_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run = Run(monkeypatch, b"bundle")
    kept = await run.publish(error)
    assert isinstance(kept, Kept)
    assert kept.outage == Outage("refused:repo_1", str(error))
    (warning,) = run.warnings
    assert str(error) in warning
    assert "kept for 24 hours" in warning
    # The connection's page will show the fault too.
    assert run.syncs == 1


@pytest.mark.parametrize(
    "error", [PlatformError("the branch has no commits"), PushRejected("GH013")]
)
async def test_work_that_is_never_accepted_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with pytest.raises(type(error)):
        await Run(monkeypatch).publish(error)


async def test_refused_work_that_is_too_large_fails_after_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpublished_work, "_MAX_HOLD_SECONDS", -1)
    run = Run(monkeypatch, None)
    with pytest.raises(PlatformError):
        await run.publish(PlatformError("no permission", "denied"))
    (warning,) = run.warnings
    assert "is lost" not in warning


async def test_a_stopped_run_without_finished_work_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch)
    assert await keep_finished_work(run.context, None) is None
