"""What a run leaves is stored at its end, and never fails it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.results.artifacts import list_artifacts
from agentjobs.organizations.authentication import Caller
from agentjobs.publishing.context import FinishedWork
from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime.agents.artifacts import Artifact, Artifacts
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import Failed
from agentjobs_worker.run.results import store_results, store_results_at_end
from tests.support.jobs import JobHarness
from tests.support.run_fields import RunFields

ARTIFACTS = Artifacts((Artifact("a.txt", b"1"),), tuple(f"{n} (reason)" for n in range(7)))


class Run:
    """The part of a run's context that its results need. The mirror lacks the commit."""

    def __init__(self, harness: JobHarness, caller: Caller, job: Any, mirror: Path) -> None:
        self.harness, self.caller = harness, caller
        self.notes: list[str] = []
        self.context: Any = RunFields(
            db=harness.db,
            link=harness.link(job),
            job=job,
            mirror=mirror,
            change=FinishedWork("1" * 40, "2" * 40),
            artifacts=ARTIFACTS,
            log=SimpleNamespace(note=self.notes.append, redact=str),
            settings=SimpleNamespace(lease_seconds=0, data_path=mirror, disk_floor_mib=0),
        )

    async def stored(self) -> list[str]:
        organization_id, job_id = self.caller.organization_id, self.context.job.id
        stored = await list_artifacts(self.harness.db, organization_id, job_id)
        return [each.name for each in stored]


@pytest.fixture
async def run(harness: JobHarness, tmp_path: Path) -> Run:
    caller = await harness.organization()
    await harness.job(caller)
    return Run(harness, caller, await harness.claim(), tmp_path)


async def test_a_diff_that_cannot_be_read_does_not_keep_the_artifacts_from_being_stored(
    run: Run,
) -> None:
    await store_results(run.context)
    assert await run.stored() == ["a.txt"]
    assert run.notes[0].startswith("the diff could not be stored: git diff-tree")
    (warning,) = (await run.harness.view(run.caller, run.context.job.id)).warnings
    assert warning == (
        "Artifacts left out: 0 (reason), 1 (reason), 2 (reason), 3 (reason), 4 (reason),"
        " and 2 more."
    )
    assert (run.context.change, run.context.artifacts) == (None, Artifacts())


async def test_results_that_could_not_be_stored_are_stored_later(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as outage:
        outage.setattr(run.harness.db, "transact_large", _unavailable)
        with pytest.raises(StoreUnavailable):
            await store_results(run.context)
        await store_results_at_end(run.context)
    assert await run.stored() == []
    await store_results(run.context)
    assert await run.stored() == ["a.txt"]


async def test_a_lost_claim_leaves_no_results(run: Run) -> None:
    await finish_job(run.harness.db, run.context.job, Failed("agent_failed", ""))
    with pytest.raises(ClaimLost):
        await store_results(run.context)
    await store_results_at_end(run.context)
    assert await run.stored() == []


async def test_a_run_that_failed_for_lack_of_space_stores_nothing(run: Run) -> None:
    await store_results_at_end(run.context, OSError(28, "No space left on device"))
    assert await run.stored() == []
    await store_results_at_end(run.context, ValueError("another reason"))
    assert await run.stored() == ["a.txt"]


async def test_a_run_that_failed_for_errors_that_caused_each_other_stores_its_results(
    run: Run,
) -> None:
    first, second = ValueError("the reason"), ValueError("its consequence")
    first.__context__, second.__cause__ = second, first
    await store_results_at_end(run.context, second)
    assert await run.stored() == ["a.txt"]


async def _unavailable(*_: object) -> None:
    raise StoreUnavailable("away")
