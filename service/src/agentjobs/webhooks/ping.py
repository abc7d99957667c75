"""Tests an endpoint: sends it a ping or a sample of another event, and records the delivery.

The repository and the job of a sample do not exist; its sequence number is 0.
"""

from agentjobs.organizations import audit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.webhooks.attempt import WebhookClient, send
from agentjobs.webhooks.endpoints import audit_target
from agentjobs.webhooks.events import (
    EVENTS,
    JOB_COMPLETED,
    PING,
    PR_REVIEW_REQUESTED,
    TEST_SEQUENCE,
    JobEvent,
    store_test,
)
from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs.webhooks.queue import fail_claimed, load_claimed
from agentjobs.webhooks.record import FinishedAttempt, record
from agentjobs.webhooks.retries import decide_outcome
from agentjobs.webhooks.signing import SecretOpener
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

REPO = "agentjobs/ping"
TEST_EVENTS = (PING, *EVENTS)

_PULL_REQUEST = f"https://agentjobs.example.com/{REPO}/pulls/1"
_WITH_PULL_REQUEST = (JOB_COMPLETED, PR_REVIEW_REQUESTED)


def sample_event(event: str) -> JobEvent:
    """An event as a job of now would cause it."""
    if event not in TEST_EVENTS:
        raise Problem("unknown_event", f"Unknown event {event!r}. Use {', '.join(TEST_EVENTS)}.")
    return JobEvent(
        event=event,
        organization_id="",
        job_id=new_id("job"),
        sequence=TEST_SEQUENCE,
        repo=REPO,
        pr_url=_PULL_REQUEST if event in _WITH_PULL_REQUEST else None,
        at_ms=now_ms(),
    )


async def send_test(
    db: Database,
    keys: SealingKeys,
    settings: Settings,
    endpoint_id: str,
    allowed: AllowList,
    event: str = PING,
) -> tuple[str, Attempt]:
    """Returns the delivery's id and its only attempt. Also works for a disabled endpoint."""
    sample = sample_event(event)
    client = WebhookClient.from_settings(settings, allowed)
    owner = new_id("snd")
    lease_ms = round(settings.webhook_lease_seconds * SECOND_MS)
    try:
        delivery = await db.transact(_create, sample, endpoint_id, owner, lease_ms)
        attempt = await _send(db, delivery, SecretOpener(keys), client)
    finally:
        await client.close()
    finished = FinishedAttempt(delivery, attempt, decide_outcome(attempt, 0, ()))
    await _record(db, finished, owner, settings.webhook_disable_days)
    return delivery.id, attempt


async def _create(
    tx: Transaction, sample: JobEvent, endpoint_id: str, owner: str, lease_ms: int
) -> ClaimedDelivery:
    event_id = await store_test(tx, sample)
    delivery_id = new_id("dlv")
    await tx.execute(
        "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
        " event, status, due_at, created_at, lease_owner, lease_expires_at, fence)"
        " SELECT :id, organization_id, id, :job_id, :sequence, :event_id, :event, 'pending', :now,"
        f" :now, :owner, {DATABASE_NOW} + :lease_ms, 1 FROM webhook_endpoints"
        " WHERE id = :endpoint_id AND removed_at IS NULL",
        id=delivery_id,
        endpoint_id=endpoint_id,
        job_id=sample.job_id,
        event_id=event_id,
        sequence=sample.sequence,
        event=sample.event,
        now=sample.at_ms,
        owner=owner,
        lease_ms=lease_ms,
    )
    claimed = await load_claimed(tx, [delivery_id])
    if not claimed:
        raise Problem("endpoint_not_found", f"The endpoint {endpoint_id} was removed.")
    return claimed[0]


@audit.in_transaction
async def _record(
    tx: Transaction, finished: FinishedAttempt, owner: str, disable_days: float
) -> None:
    await record(tx, [finished], owner=owner, disable_days=disable_days)
    delivery = finished.delivery
    await audit.record(
        tx,
        delivery.organization_id,
        "webhook.tested",
        audit_target(delivery.url),
        endpoint=delivery.endpoint_id,
        delivery=delivery.id,
        event=delivery.event,
        succeeded=finished.attempt.succeeded,
    )


async def _send(
    db: Database, delivery: ClaimedDelivery, secrets: SecretOpener, client: WebhookClient
) -> Attempt:
    try:
        return await send(delivery, secrets, client, await db.clock_ms())
    except BaseException:
        # A sender must not deliver the test later, when no one waits for the result.
        await db.transact(fail_claimed, [delivery.id])
        raise
