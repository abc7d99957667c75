"""Trying an endpoint: a delivery made for the occasion, sent and recorded as every other."""

from agentjobs.clock import SECOND_MS, iso_utc, now_ms
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.claim import CLOCK, read_claimed
from agentjobs.webhooks.closing import give_up
from agentjobs.webhooks.connections import Connections
from agentjobs.webhooks.endpoints import target_of
from agentjobs.webhooks.events import PING, Payload, store_event
from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs.webhooks.record import Finished, record
from agentjobs.webhooks.retry_policy import judge
from agentjobs.webhooks.send import connections_of, send
from agentjobs.webhooks.signing_secrets import SecretBox

REPO = "agentjobs/ping"


async def send_ping(
    db: Database, keys: SealingKeys, settings: Settings, endpoint_id: str, allowed: Allowed
) -> tuple[str, Attempt]:
    """The delivery's id and what its one attempt saw. A disabled endpoint may be tried, too."""
    connections = connections_of(settings, allowed)
    owner = new_id("snd")
    lease_ms = round(settings.webhook_lease_seconds * SECOND_MS)
    try:
        delivery = await db.transact(_make, endpoint_id, owner, lease_ms)
        attempt = await _send(db, delivery, SecretBox(keys), connections)
    finally:
        await connections.close()
    finished = Finished(delivery, attempt, judge(attempt, 0, ()))
    entry = audit.entry(
        "webhook.tested",
        target_of(delivery.url),
        endpoint=endpoint_id,
        delivery=delivery.id,
        succeeded=attempt.succeeded,
    )
    await db.transact(_record, finished, owner, settings.webhook_disable_days, entry)
    return delivery.id, attempt


async def _make(tx: Transaction, endpoint_id: str, owner: str, lease_ms: int) -> ClaimedDelivery:
    now = now_ms()
    # An identifier as every other, of a job that never was.
    payload = Payload(PING, new_id("job"), REPO, None, iso_utc(now))
    event = await store_event(tx, payload, sequence=1, at_ms=now)
    delivery_id = new_id("dlv")
    await tx.execute(
        "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
        " event, status, due_at, created_at, lease_owner, lease_expires_at, fence)"
        " SELECT :id, organization_id, id, :job_id, 1, :event_id, :event, 'pending', :now, :now,"
        f" :owner, {CLOCK} + :lease_ms, 1 FROM webhook_endpoints"
        " WHERE id = :endpoint_id AND removed_at IS NULL",
        id=delivery_id,
        endpoint_id=endpoint_id,
        job_id=event.job_id,
        event_id=event.id,
        event=PING,
        now=now,
        owner=owner,
        lease_ms=lease_ms,
    )
    claimed = await read_claimed(tx, [delivery_id])
    if not claimed:
        raise Problem("endpoint_not_found", f"The endpoint {endpoint_id} was removed.")
    return claimed[0]


async def _record(
    tx: Transaction, finished: Finished, owner: str, disable_days: float, entry: audit.Entry
) -> None:
    await record(tx, [finished], owner=owner, disable_days=disable_days)
    await audit.write(tx, finished.delivery.organization_id, entry)


async def _send(
    db: Database, delivery: ClaimedDelivery, secrets: SecretBox, connections: Connections
) -> Attempt:
    try:
        return await send(delivery, secrets, connections)
    except BaseException:
        # Nobody is to send it later, when nobody waits for its answer any more.
        await db.transact(give_up, [delivery.id], now_ms())
        raise
