"""Changing an endpoint: another address, description or choice of events. Its secret stays."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentjobs.organizations import audit
from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.outbound.guard.resolver import LookUp, system_addresses
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.endpoints import Endpoint, change, entry, find_endpoint, target_of
from agentjobs.webhooks.events import decode_filter
from agentjobs.webhooks.registration import check_words, in_order, warning_of
from agentjobs.webhooks.targets import check_target

# Failures at another address say nothing of this one. One that is disabled keeps its reason.
_NEW_ADDRESS = "failing_since = CASE WHEN disabled_at IS NULL THEN NULL ELSE failing_since END"


class _Wanted(msgspec.Struct, frozen=True):
    """None: stays as it is."""

    url: str | None
    description: str | None
    events: tuple[str, ...] | None


async def update_endpoint(
    db: Database,
    organization: str,
    endpoint_id: str,
    *,
    url: str | None = None,
    description: str | None = None,
    events: Sequence[str] | None = None,
    allowed: Allowed,
    look_up: LookUp = system_addresses,
    has_proxy: bool = False,
) -> tuple[Endpoint, str | None]:
    """What is None stays; no events are all of them. With a warning, if there is cause for one.

    What waits is sent to the new address; a disabled endpoint stays disabled.
    """
    check_words(description or "", events or ())
    found = await find_endpoint(db, organization, endpoint_id)
    warning = None
    if url is not None and url != found.url:
        warning = await check_target(url, allowed, look_up=look_up, has_proxy=has_proxy)
    wanted = _Wanted(url, description, None if events is None else in_order(events))
    changed, same = await db.transact(_update, found, wanted, entry("webhook.changed", found))
    return changed, warning_of(warning, same)


async def _update(
    tx: Transaction, endpoint: Endpoint, wanted: _Wanted, entry: audit.Entry
) -> tuple[Endpoint, list[str]]:
    """As it is now, and the others that have its address if that is a new one."""
    row = await tx.fetch_one(
        "SELECT * FROM webhook_endpoints WHERE id = :id AND removed_at IS NULL"
        " /*postgresql FOR UPDATE */",
        id=endpoint.id,
    )
    values = {} if row is None else _differences(row, wanted)
    if row is None or not values:
        # Removed meanwhile, which is refused there; or as it was wanted already.
        return await change(tx, endpoint, None, "url = url"), []
    assignments = [f"{name} = :{name}" for name in values]
    if "url" in values:
        assignments.append(_NEW_ADDRESS)
    told = _told(entry, row["url"], values)
    changed = await change(tx, endpoint, told, ", ".join(assignments), **values)
    return changed, await _same(tx, row, changed.url) if "url" in values else []


def _differences(row: Row, wanted: _Wanted) -> dict[str, Any]:
    """The columns that become others, with what they become."""
    values: dict[str, Any] = {}
    if wanted.url not in {None, row["url"]}:
        values["url"] = wanted.url
    if wanted.description not in {None, row["description"]}:
        values["description"] = wanted.description
    if wanted.events not in {None, decode_filter(row["events"])}:
        values["events"] = msgspec.json.encode(wanted.events).decode()
    return values


def _told(entry: audit.Entry, former_url: str, values: dict[str, Any]) -> audit.Entry:
    details = {**entry.details, "what": list(values)}
    if "url" not in values:
        return msgspec.structs.replace(entry, details=details)
    details["former_url"] = target_of(former_url)
    return msgspec.structs.replace(entry, target=target_of(values["url"]), details=details)


async def _same(tx: Transaction, row: Row, url: str) -> list[str]:
    rows = await tx.fetch_all(
        "SELECT id FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND url = :url AND id <> :id AND removed_at IS NULL ORDER BY id",
        organization_id=row["organization_id"],
        url=url,
        id=row["id"],
    )
    return [row["id"] for row in rows]
