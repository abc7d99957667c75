"""The content of a store before a measurement: an organization per connection, each with a key, a
repository that is ready and some queued jobs; and how that state is restored.

One organization per connection, because the queue of a single one would be full at once.
"""

from dataclasses import dataclass

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.organizations import create_organization
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.catalog import build_catalog
from tests.support.jobs import insert_repo

REPO = "acme/shop"
JOB = CreateJobRequest(repo=REPO, agent="lint-fixer", ticket_id="SHOP-1234")
_JOBS_EACH = 10


@dataclass(frozen=True)
class Tenant:
    key: str
    job_ids: tuple[str, ...]


async def populate(settings: Settings, organizations: int) -> list[Tenant]:
    db = await open_database(settings.effective_database_url, migrate=True)
    try:
        context = JobsContext(db, settings, build_catalog(settings))
        return [await _tenant(context, f"org-{number}") for number in range(organizations)]
    finally:
        await db.close()


async def _tenant(context: JobsContext, name: str) -> Tenant:
    organization = await create_organization(context.db, context.plans, name, "enterprise")
    created = await create_key(context.db, name)
    await context.db.transact(insert_repo, organization.id, REPO, "ready")
    caller = await ApiKeyAuthenticator(context.db).authenticate(created.key)
    assert caller is not None
    receipts = [await create_job(context, caller, JOB) for _ in range(_JOBS_EACH)]
    return Tenant(created.key, tuple(one.receipt.job_id for one in receipts))


async def empty_queue(settings: Settings, kept: list[Tenant]) -> int:
    """Cancel the jobs of a measurement, so that the next starts with the same queue."""
    newest = max(job_id for tenant in kept for job_id in tenant.job_ids)
    db = await open_database(settings.effective_database_url, migrate=False)
    try:
        return await db.transact(_empty, newest)
    finally:
        await db.close()


async def _empty(tx: Transaction, newest: str) -> int:
    await tx.execute("DELETE FROM job_queue WHERE job_id > :newest", newest=newest)
    return await tx.execute(
        "UPDATE jobs SET status = 'cancelled', completed_at = :now"
        " WHERE status = 'queued' AND id > :newest",
        now=now_ms(),
        newest=newest,
    )
