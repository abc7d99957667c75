"""Adds and updates endpoints. A new endpoint's secret is generated, sealed and shown once."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.memberships import lock_organization
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.endpoints import (
    Endpoint,
    audit_entry,
    audit_target,
    find_endpoint,
    list_endpoints,
    lock_endpoint,
    update_row,
)
from agentjobs.webhooks.events import EVENTS
from agentjobs.webhooks.signing import new_secret, seal_secret
from agentjobs.webhooks.targets import check_target
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import Lookup, system_lookup
from agentjobs_runtime.problems import Problem

MAX_ENDPOINTS = 100

_MAX_DESCRIPTION_LENGTH = 200
# Failures at the former URL do not count against the new one. A disabled endpoint keeps its reason.
_RESET_FAILURES = "failing_since = CASE WHEN disabled_at IS NULL THEN NULL ELSE failing_since END"


class CreatedEndpoint(NamedTuple):
    endpoint: Endpoint
    secret: str
    warning: str | None


async def add_endpoint(
    db: Database,
    keys: SealingKeys,
    organization: str,
    url: str,
    *,
    description: str = "",
    events: Sequence[str] = (),
    allowed: AllowList,
    lookup: Lookup = system_lookup,
    has_proxy: bool = False,
) -> CreatedEndpoint:
    _validate(description, events)
    owner = await find_organization(db, organization)
    warning = await check_target(url, allowed, lookup=lookup, has_proxy=has_proxy)
    endpoint = Endpoint(
        id=new_id("whk"),
        organization=owner.name,
        url=url,
        description=description,
        events=_sort_events(events),
        created_at=now_ms(),
    )
    secret = new_secret()
    sealed = seal_secret(keys, owner.id, endpoint.id, secret)
    duplicates = await _insert(db, owner.id, endpoint, sealed)
    return CreatedEndpoint(endpoint, secret, _join_warnings(warning, duplicates))


async def update_endpoint(
    db: Database,
    organization: str,
    endpoint_id: str,
    *,
    url: str | None = None,
    description: str | None = None,
    events: Sequence[str] | None = None,
    allowed: AllowList,
    lookup: Lookup = system_lookup,
    has_proxy: bool = False,
) -> tuple[Endpoint, str | None]:
    """Returns the endpoint and a warning, if any. None leaves a value unchanged; no events means
    all events.

    Waiting deliveries go to the new URL. A disabled endpoint stays disabled.
    """
    _validate(description or "", events or ())
    endpoint = await find_endpoint(db, organization, endpoint_id)
    warning = None
    if url is not None and url != endpoint.url:
        warning = await check_target(url, allowed, lookup=lookup, has_proxy=has_proxy)
    given = {
        "url": url,
        "description": description,
        "events": None if events is None else _sort_events(events),
    }
    updated, duplicates = await _update(db, organization, endpoint.id, given)
    return updated, _join_warnings(warning, duplicates)


def _validate(description: str, events: Sequence[str]) -> None:
    if len(description) > _MAX_DESCRIPTION_LENGTH or not description.isprintable():
        raise Problem(
            "invalid_description",
            f"A description is one line of at most {_MAX_DESCRIPTION_LENGTH} printable characters.",
        )
    for event in events:
        if event not in EVENTS:
            raise Problem(
                "unknown_event", f"Unknown event {event!r}. Valid events: {', '.join(EVENTS)}"
            )


def _sort_events(events: Sequence[str]) -> tuple[str, ...]:
    """Removes duplicates and sorts in the order in which a job emits the events."""
    return tuple(event for event in EVENTS if event in events)


def _join_warnings(target_warning: str | None, duplicates: Sequence[str]) -> str | None:
    """`duplicates`: identifiers of other endpoints with the same URL."""
    warnings = [target_warning] if target_warning else []
    if duplicates:
        warnings.append(f"{', '.join(duplicates)} also uses this URL, so events arrive twice.")
    return " ".join(warnings) or None


@audit.in_transaction
async def _insert(
    tx: Transaction, organization_id: str, endpoint: Endpoint, sealed: Sealed
) -> list[str]:
    """Returns the identifiers of endpoints with the same URL."""
    await lock_organization(tx, organization_id)
    rows = await tx.fetch_all(
        "SELECT id, url FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY id",
        organization_id=organization_id,
    )
    if len(rows) >= MAX_ENDPOINTS:
        raise Problem(
            "too_many_endpoints",
            f"The organization {endpoint.organization!r} has reached the limit of {MAX_ENDPOINTS} "
            "endpoints. Remove one with `agentjobs webhooks remove` first.",
        )
    await tx.execute(
        "INSERT INTO webhook_endpoints (id, organization_id, url, description, events, sealed,"
        " key_id, created_at, updated_at) VALUES (:id, :organization_id, :url, :description,"
        " :events, :sealed, :key_id, :now, :now)",
        id=endpoint.id,
        organization_id=organization_id,
        url=endpoint.url,
        description=endpoint.description,
        events=msgspec.json.encode(endpoint.events).decode(),
        sealed=sealed.data,
        key_id=sealed.key_id,
        now=endpoint.created_at,
    )
    entry = audit_entry("webhook.added", endpoint, events=endpoint.events)
    await audit.write(tx, organization_id, entry)
    return [row["id"] for row in rows if row["url"] == endpoint.url]


@audit.in_transaction
async def _update(
    tx: Transaction, organization: str, endpoint_id: str, given: Mapping[str, Any]
) -> tuple[Endpoint, list[str]]:
    """Returns the endpoint and, if its URL changed, other endpoints with the same URL."""
    endpoint = await lock_endpoint(tx, organization, endpoint_id)
    changed = {
        name: value
        for name, value in given.items()
        if value is not None and value != getattr(endpoint, name)
    }
    if not changed:
        return endpoint, []
    after = msgspec.structs.replace(endpoint, **changed)
    details: dict[str, Any] = {"what": list(changed)}
    assignments = [f"{name} = :{name}" for name in changed]
    duplicates = []
    if "url" in changed:
        details["former_url"] = audit_target(endpoint.url)
        assignments.append(_RESET_FAILURES)
        others = await list_endpoints(tx, organization)
        duplicates = [
            other.id for other in others if other.url == after.url and other.id != after.id
        ]
    if "events" in changed:
        changed["events"] = msgspec.json.encode(after.events).decode()
    entry = audit_entry("webhook.changed", after, **details)
    return await update_row(tx, endpoint, entry, ", ".join(assignments), **changed), duplicates
