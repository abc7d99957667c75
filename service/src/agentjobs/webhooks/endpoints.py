"""Endpoints of an organization: list, find, disable, enable, remove.

Knows neither the network nor a decrypted secret.
"""

from typing import Any

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import DEFAULT_ORGANIZATION, find_organization
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.webhooks.events import decode_filter
from agentjobs.webhooks.model import DisabledReason
from agentjobs.webhooks.queue import fail_waiting
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.problems import Problem

_MAX_TARGET_LENGTH = 500


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint without its secrets."""

    id: str
    organization: str
    url: str
    description: str = ""
    # Empty: all events.
    events: tuple[str, ...] = ()
    created_at: int
    disabled_at: int | None = None
    disabled_reason: DisabledReason | None = None
    last_success_at: int | None = None
    last_failure_at: int | None = None
    failing_since: int | None = None
    # When the pending secret replaces the main one; None without a pending secret.
    promote_at: int | None = None

    @property
    def enabled(self) -> bool:
        return self.disabled_at is None

    @property
    def has_pending_secret(self) -> bool:
        return self.promote_at is not None


async def list_endpoints(db: Database | Transaction, organization: str) -> list[Endpoint]:
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT * FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY id",
        organization_id=owner.id,
    )
    return [_endpoint(row, owner.name) for row in rows]


async def find_endpoint(db: Database | Transaction, organization: str, endpoint: str) -> Endpoint:
    """Finds an endpoint by its identifier or its exact URL."""
    endpoints = await list_endpoints(db, organization)
    matches = [candidate for candidate in endpoints if endpoint in {candidate.id, candidate.url}]
    if not matches:
        raise Problem(
            "endpoint_not_found",
            f"The organization {organization!r} has no endpoint {endpoint!r}. `agentjobs webhooks "
            f"list{org_flag(organization)}` lists its endpoints.",
        )
    if len(matches) > 1:
        ids = ", ".join(match.id for match in matches)
        raise Problem(
            "endpoint_ambiguous", f"Several endpoints have this URL. Use an identifier: {ids}"
        )
    return matches[0]


async def lock_endpoint(tx: Transaction, organization: str, endpoint: str) -> Endpoint:
    """Finds the endpoint as it is until the end of the transaction."""
    found = await find_endpoint(tx, organization, endpoint)
    await tx.fetch_one(
        "SELECT id FROM webhook_endpoints WHERE id = :id /*postgresql FOR UPDATE */", id=found.id
    )
    return await find_endpoint(tx, organization, found.id)


@audit.in_transaction
async def disable_endpoint(tx: Transaction, organization: str, endpoint: str) -> Endpoint:
    """Disables for an admin. An endpoint that is already disabled keeps its time and reason."""
    current = await find_endpoint(tx, organization, endpoint)
    entry = audit_entry("webhook.disabled", current)
    await disable(tx, current.id, "by_hand", now_ms(), entry)
    return await find_endpoint(tx, organization, current.id)


@audit.in_transaction
async def enable_endpoint(tx: Transaction, organization: str, endpoint: str) -> Endpoint:
    """Resets its health. Events from while it was disabled are not sent."""
    current = await lock_endpoint(tx, organization, endpoint)
    entry = None if current.enabled else audit_entry("webhook.enabled", current)
    assignments = "disabled_at = NULL, disabled_reason = NULL, failing_since = NULL"
    return await update_row(tx, current, entry, assignments)


@audit.in_transaction
async def remove_endpoint(tx: Transaction, organization: str, endpoint: str) -> Endpoint:
    """Erases its secrets; its deliveries stay in the log until they are pruned."""
    current = await lock_endpoint(tx, organization, endpoint)
    await update_row(
        tx,
        current,
        audit_entry("webhook.removed", current),
        "removed_at = :now, sealed = :empty, key_id = '',"
        " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL",
        empty=b"",
    )
    await fail_waiting(tx, current.id)
    return current


async def disable(
    tx: Transaction,
    endpoint_id: str,
    reason: DisabledReason,
    at_ms: int,
    entry: audit.Entry | None = None,
) -> bool:
    """Also fails a batch of its waiting deliveries; senders' maintenance fails the rest.

    Without an audit `entry` the service itself is recorded as the actor. Returns False if the
    endpoint was already disabled or removed.
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
    if entry is None:
        details = {"endpoint": endpoint_id, "reason": reason}
        target = audit_target(row["url"])
        entry = audit.Entry(audit.SERVICE, "webhook.disabled", target, details)
    await audit.write(tx, row["organization_id"], entry)
    await fail_waiting(tx, endpoint_id)
    return True


async def update_row(
    tx: Transaction,
    endpoint: Endpoint,
    entry: audit.Entry | None,
    assignments: str,
    /,
    **values: Any,
) -> Endpoint:
    """Updates an endpoint that the transaction has locked. Without an `entry` nothing is written to
    the audit log."""
    row = await tx.fetch_one(
        f"UPDATE webhook_endpoints SET {assignments}, updated_at = :now WHERE id = :id RETURNING *",
        id=endpoint.id,
        now=await tx.clock_ms(),
        **values,
    )
    assert row is not None
    if entry is not None:
        await audit.write(tx, row["organization_id"], entry)
    return _endpoint(row, endpoint.organization)


def audit_entry(action: str, endpoint: Endpoint, **details: Any) -> audit.Entry:
    return audit.entry(action, audit_target(endpoint.url), endpoint=endpoint.id, **details)


def audit_target(url: str) -> str:
    """An endpoint in the audit log: without the query, which may contain a token."""
    return url.partition("?")[0][:_MAX_TARGET_LENGTH]


def disabled_text(endpoint: Endpoint) -> str | None:
    """Why the endpoint is disabled and how to enable it; None while it is enabled."""
    if endpoint.disabled_at is None:
        return None
    at = iso_utc(endpoint.disabled_at)
    since = iso_utc(endpoint.failing_since or endpoint.disabled_at)
    why = {
        "gone": f"the receiver responded with 410 Gone at {at}",
        "failing": f"every delivery has failed since {since}",
    }.get(endpoint.disabled_reason or "", f"by an admin at {at}")
    command = f"agentjobs webhooks enable {endpoint.id}{org_flag(endpoint.organization)}"
    return f"{why}; enable it with: {command}"


def org_flag(organization: str) -> str:
    """The option that a command for this organization needs."""
    return "" if organization == DEFAULT_ORGANIZATION else f" --org {organization}"


def _endpoint(row: Row, organization: str) -> Endpoint:
    promote_at = row["promote_at"]
    return to_struct(
        row,
        Endpoint,
        organization=organization,
        events=decode_filter(row["events"]),
        promote_at=promote_at if promote_at is not None and promote_at > now_ms() else None,
    )
