"""Where an organization wants its events sent: listed, found, disabled, enabled, removed.

Knows neither the network nor a secret in clear.
"""

from typing import Any

import msgspec

from agentjobs.clock import iso_utc, now_ms
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import DEFAULT_ORGANIZATION, find_organization
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.closing import fail_waiting
from agentjobs.webhooks.events import decode_filter
from agentjobs.webhooks.model import DisabledReason

_MOST_TARGET_LENGTH = 500


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What may be known of an endpoint: everything but its secrets."""

    id: str
    organization: str
    url: str
    description: str = ""
    # None of them: all of them.
    events: tuple[str, ...] = ()
    created_at: int
    disabled_at: int | None = None
    disabled_reason: DisabledReason | None = None
    last_success_at: int | None = None
    last_failure_at: int | None = None
    failing_since: int | None = None
    # When the pending secret takes over, while there is one.
    promote_at: int | None = None

    @property
    def enabled(self) -> bool:
        return self.disabled_at is None

    @property
    def has_pending_secret(self) -> bool:
        return self.promote_at is not None


async def list_endpoints(db: Database, organization: str) -> list[Endpoint]:
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT * FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY id",
        organization_id=owner.id,
    )
    return [_endpoint(row, owner.name) for row in rows]


async def find_endpoint(db: Database, organization: str, endpoint: str) -> Endpoint:
    """By its identifier or its exact address, if only one has that."""
    every = await list_endpoints(db, organization)
    found = [each for each in every if endpoint in {each.id, each.url}]
    if not found:
        raise Problem(
            "endpoint_not_found",
            f"The organization {organization!r} has no endpoint {endpoint!r}; `agentjobs webhooks "
            f"list{org_flag(organization)}` shows those it has.",
        )
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        raise Problem(
            "endpoint_ambiguous", f"Several endpoints have this address; name one of them: {ids}"
        )
    return found[0]


async def disable_endpoint(db: Database, organization: str, endpoint: str) -> Endpoint:
    """By hand. One that is disabled already keeps its time and reason."""
    found = await find_endpoint(db, organization, endpoint)
    disabled = await db.transact(_disable_by_hand, found, entry("webhook.disabled", found))
    await _finish_closing(db, found.id)
    return disabled


async def enable_endpoint(db: Database, organization: str, endpoint: str) -> Endpoint:
    """Its health starts anew; what was not sent meanwhile is not made up for."""
    found = await find_endpoint(db, organization, endpoint)
    return await db.transact(_enable, found, entry("webhook.enabled", found))


async def remove_endpoint(db: Database, organization: str, endpoint: str) -> Endpoint:
    """Its secrets are wiped; its deliveries stay in the log until they are pruned."""
    found = await find_endpoint(db, organization, endpoint)
    await db.transact(_remove, found, entry("webhook.removed", found))
    await _finish_closing(db, found.id)
    return found


async def disable(
    tx: Transaction,
    endpoint_id: str,
    reason: DisabledReason,
    at_ms: int,
    by: audit.Entry | None = None,
) -> bool:
    """Fails what waits for it, too; of a long queue the senders' upkeep does the rest.

    `by` tells who asked for it; nobody: the service does it by itself.
    False: it was disabled, with its own reason, or is removed.
    """
    row = await tx.fetch_one(
        "UPDATE webhook_endpoints SET disabled_at = :now, disabled_reason = :reason,"
        " updated_at = :now WHERE id = :id AND disabled_at IS NULL AND removed_at IS NULL"
        " RETURNING organization_id, url",
        id=endpoint_id,
        reason=reason,
        now=at_ms,
    )
    if row is None:
        return False
    details = {"endpoint": endpoint_id, "reason": reason}
    by_itself = audit.Entry(audit.SERVICE, "webhook.disabled", target_of(row["url"]), details)
    await audit.write(tx, row["organization_id"], by or by_itself)
    await fail_waiting(tx, endpoint_id, at_ms)
    return True


async def change(
    tx: Transaction,
    endpoint: Endpoint,
    entry: audit.Entry | None,
    assignments: str,
    /,
    **values: Any,
) -> Endpoint:
    """Without an entry nobody is told who did it: for what changes nothing that people see."""
    row = await tx.fetch_one(
        f"UPDATE webhook_endpoints SET {assignments}, updated_at = :now"
        " WHERE id = :id AND removed_at IS NULL RETURNING *",
        id=endpoint.id,
        now=now_ms(),
        **values,
    )
    if row is None:
        raise Problem("endpoint_not_found", f"{endpoint.id} has just been removed.")
    if entry is not None:
        await audit.write(tx, row["organization_id"], entry)
    return _endpoint(row, endpoint.organization)


def entry(action: str, endpoint: Endpoint, **details: Any) -> audit.Entry:
    """For the audit log, in which an endpoint is found by its address or its identifier."""
    return audit.entry(action, target_of(endpoint.url), endpoint=endpoint.id, **details)


def target_of(url: str) -> str:
    """What the audit log calls an endpoint: without a query, where some keep a token."""
    return url.partition("?")[0][:_MOST_TARGET_LENGTH]


def reason_text(endpoint: Endpoint) -> str | None:
    """Why it is disabled, for people, and how to enable it; None while it is enabled."""
    if endpoint.disabled_at is None:
        return None
    at = iso_utc(endpoint.disabled_at)
    since = iso_utc(endpoint.failing_since or endpoint.disabled_at)
    why = {
        "gone": f"the receiver answered 410 Gone at {at}",
        "failing": f"every delivery failed since {since}",
    }.get(endpoint.disabled_reason or "", f"by hand at {at}")
    command = f"agentjobs webhooks enable {endpoint.id}{org_flag(endpoint.organization)}"
    return f"{why}; to enable it: {command}"


def org_flag(organization: str) -> str:
    """What a command needs to be about that organization."""
    return "" if organization == DEFAULT_ORGANIZATION else f" --org {organization}"


async def _disable_by_hand(tx: Transaction, endpoint: Endpoint, entry: audit.Entry) -> Endpoint:
    await disable(tx, endpoint.id, "by_hand", now_ms(), entry)
    return await change(tx, endpoint, None, "url = url")


async def _enable(tx: Transaction, endpoint: Endpoint, entry: audit.Entry) -> Endpoint:
    disabled = await tx.fetch_one(
        "SELECT id FROM webhook_endpoints WHERE id = :id AND disabled_at IS NOT NULL"
        " /*postgresql FOR UPDATE */",
        id=endpoint.id,
    )
    return await change(
        tx,
        endpoint,
        None if disabled is None else entry,
        "disabled_at = NULL, disabled_reason = NULL, failing_since = NULL",
    )


async def _remove(tx: Transaction, endpoint: Endpoint, entry: audit.Entry) -> None:
    await change(
        tx,
        endpoint,
        entry,
        "removed_at = :now, sealed = :nothing, key_id = '',"
        " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL",
        nothing=b"",
    )
    await fail_waiting(tx, endpoint.id, now_ms())


async def _finish_closing(db: Database, endpoint_id: str) -> None:
    while await db.transact(_fail_waiting_of_closed, endpoint_id):
        pass


async def _fail_waiting_of_closed(tx: Transaction, endpoint_id: str) -> int:
    """Somebody may have enabled it meanwhile."""
    closed = await tx.fetch_one(
        "SELECT id FROM webhook_endpoints WHERE id = :id"
        " AND COALESCE(disabled_at, removed_at) IS NOT NULL",
        id=endpoint_id,
    )
    return 0 if closed is None else await fail_waiting(tx, endpoint_id, now_ms())


def _endpoint(row: Row, organization: str) -> Endpoint:
    promote_at = row["promote_at"]
    return Endpoint(
        id=row["id"],
        organization=organization,
        url=row["url"],
        description=row["description"],
        events=decode_filter(row["events"]),
        created_at=row["created_at"],
        disabled_at=row["disabled_at"],
        disabled_reason=row["disabled_reason"],
        last_success_at=row["last_success_at"],
        last_failure_at=row["last_failure_at"],
        failing_since=row["failing_since"],
        promote_at=promote_at if promote_at is not None and promote_at > now_ms() else None,
    )
