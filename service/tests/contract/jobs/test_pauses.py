"""Pausing the service or one organization, on both databases."""

import pytest

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue import waiting_organizations
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.pauses import find_pause, load_pauses, pause, resume
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

DONE = Completed("http://x/1", 1, "2" * 40, draft=False)


@pytest.fixture(autouse=True)
async def default_organization(harness: JobHarness) -> None:
    await ensure_default(harness.db, harness.context.plans)
    await renew(harness.db, WorkerInfo("wrk_a", "host", 8, AGENTS), [], 10)


async def test_a_paused_service_claims_nothing_and_finishes_what_runs(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    running = await harness.claim()
    waiting = await harness.job(caller)
    assert await pause(harness.db)
    assert await harness.nothing_to_claim()
    harness.context.fleet.forget()
    assert (await harness.view(caller, waiting)).queue_reason == "paused"
    assert await find_pause(harness.db, caller.organization_id) == "service"
    await start_job(harness.db, running, "1" * 40)
    assert await finish_job(harness.db, running, DONE)
    accepted_meanwhile = await harness.job(caller)
    assert await resume(harness.db)
    harness.context.fleet.forget()
    assert (await harness.view(caller, waiting)).queue_reason is None
    assert {(await harness.claim()).id, (await harness.claim()).id} == {waiting, accepted_meanwhile}


async def test_a_paused_organization_does_not_hold_back_others(harness: JobHarness) -> None:
    paused, other = await harness.organization("paused"), await harness.organization("other")
    waiting = await harness.job(paused)
    startable = await harness.job(other)
    assert await pause(harness.db, "paused")
    assert (await harness.view(paused, waiting)).queue_reason == "paused"
    assert (await harness.view(other, startable)).queue_reason is None
    assert await find_pause(harness.db, paused.organization_id) == "organization"
    assert await find_pause(harness.db, other.organization_id) is None
    assert (await harness.claim()).id == startable
    assert await harness.nothing_to_claim()
    assert await resume(harness.db, "paused")
    assert (await harness.claim()).id == waiting


@pytest.mark.parametrize("paused", [2, 3])
async def test_many_paused_organizations_do_not_hide_the_next_one(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch, paused: int
) -> None:
    monkeypatch.setattr(waiting_organizations, "WINDOW", 2)
    for name in ("a", "b", "c")[:paused]:
        await harness.job(await harness.organization(name))
        await pause(harness.db, name)
    startable = await harness.job(await harness.organization("d"))
    claimer = Claimer(harness.context, "wrk_a")
    claimed = [*await claimer.claim(AGENTS, 4), *await claimer.claim(AGENTS, 4)]
    assert [job.id for job in claimed] == [startable]


async def test_an_organization_stays_paused_when_the_service_is_resumed(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    await pause(harness.db)
    await pause(harness.db, "acme")
    await resume(harness.db)
    assert await harness.nothing_to_claim()
    pauses = await load_pauses(harness.db)
    assert (pauses.service_since, list(pauses.organizations)) == (None, ["acme"])


@pytest.mark.parametrize("paused", [None, "acme"])
async def test_a_claim_that_read_before_the_pause_claims_nothing(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch, paused: str | None
) -> None:
    await harness.job(await harness.organization())
    read = waiting_organizations.WaitingOrganizations.read

    async def read_and_be_paused(
        queue: waiting_organizations.WaitingOrganizations, agents: list[str]
    ) -> waiting_organizations.QueueView:
        view = await read(queue, agents)
        await pause(harness.db, paused)
        return view

    monkeypatch.setattr(waiting_organizations.WaitingOrganizations, "read", read_and_be_paused)
    assert await harness.nothing_to_claim()


@pytest.mark.parametrize("paused", [None, "acme"])
async def test_the_estimate_of_a_paused_job_grows_with_the_pause(
    harness: JobHarness, paused: str | None
) -> None:
    caller = await harness.organization()
    assert await estimate(harness, caller) == 0
    await pause(harness.db, paused)
    assert await estimate(harness, caller) > 0
    await harness.db.transact(_begin_pauses_earlier, DAY_MS)
    assert await estimate(harness, caller) >= DAY_MS
    await resume(harness.db, paused)
    assert await estimate(harness, caller) == 0


async def estimate(harness: JobHarness, caller: Caller) -> int:
    harness.context.fleet.forget()
    body = CreateJobRequest("acme/shop", "fixer")
    return (await create_job(harness.context, caller, body)).receipt.estimated_start_ms


async def _begin_pauses_earlier(tx: Transaction, ms: int) -> None:
    await tx.execute("UPDATE effective_settings SET updated_at = updated_at - :ms", ms=ms)
    await tx.execute("UPDATE organizations SET paused_at = paused_at - :ms", ms=ms)


async def test_only_changes_are_audited(harness: JobHarness) -> None:
    caller = await harness.organization()
    for organization in (None, "acme"):
        assert await pause(harness.db, organization)
        assert not await pause(harness.db, organization)
        assert await resume(harness.db, organization)
        assert not await resume(harness.db, organization)
    default = await find_organization(harness.db, "default")
    records = await list_entries(harness.db, default.id, AuditFilter(action="service"), limit=9)
    assert [each.action for each in records] == ["service.resumed", "service.paused"]
    records = await list_entries(
        harness.db, caller.organization_id, AuditFilter(action="organization"), limit=9
    )
    assert [(each.action, each.target) for each in records][:2] == [
        ("organization.resumed", "acme"),
        ("organization.paused", "acme"),
    ]
    with pytest.raises(Problem, match="no organization 'nobody'"):
        await pause(harness.db, "nobody")
