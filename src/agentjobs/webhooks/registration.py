"""Adding an endpoint: its address is judged, its secret made, sealed and shown this once."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from agentjobs.clock import now_ms
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.outbound.guard.resolver import LookUp, system_addresses
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.endpoints import Endpoint, entry
from agentjobs.webhooks.events import EVENTS
from agentjobs.webhooks.signature import new_secret
from agentjobs.webhooks.signing_secrets import seal_secret
from agentjobs.webhooks.targets import check_target

MOST_ENDPOINTS = 100

_MOST_DESCRIPTION_LENGTH = 200


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
    allowed: Allowed,
    look_up: LookUp = system_addresses,
    has_proxy: bool = False,
) -> CreatedEndpoint:
    check_words(description, events)
    owner = await find_organization(db, organization)
    warning = await check_target(url, allowed, look_up=look_up, has_proxy=has_proxy)
    endpoint = Endpoint(
        id=new_id("whk"),
        organization=owner.name,
        url=url,
        description=description,
        events=in_order(events),
        created_at=now_ms(),
    )
    secret = new_secret()
    sealed = seal_secret(keys, owner.id, endpoint.id, secret)
    added = entry("webhook.added", endpoint, events=endpoint.events)
    same = await db.transact(_insert, owner.id, endpoint, sealed, added)
    return CreatedEndpoint(endpoint, secret, warning_of(warning, same))


def warning_of(of_address: str | None, same: Sequence[str]) -> str | None:
    """`same`: the identifiers of others that send to the same address."""
    warnings = [of_address] if of_address else []
    if same:
        warnings.append(f"{', '.join(same)} sends to this address, too: events arrive twice.")
    return " ".join(warnings) or None


def in_order(events: Sequence[str]) -> tuple[str, ...]:
    """Each once, in the order of a job's life."""
    return tuple(event for event in EVENTS if event in events)


def check_words(description: str, events: Sequence[str]) -> None:
    if len(description) > _MOST_DESCRIPTION_LENGTH or not description.isprintable():
        raise Problem(
            "invalid_description",
            f"A description is one line of at most {_MOST_DESCRIPTION_LENGTH} printable "
            "characters.",
        )
    for event in events:
        if event not in EVENTS:
            raise Problem(
                "unknown_event", f"There is no event {event!r}; there are: {', '.join(EVENTS)}"
            )


async def _insert(
    tx: Transaction, organization_id: str, endpoint: Endpoint, sealed: Sealed, entry: audit.Entry
) -> list[str]:
    """Those that have the same address."""
    await tx.fetch_one(
        "SELECT id FROM organizations WHERE id = :id /*postgresql FOR NO KEY UPDATE */",
        id=organization_id,
    )
    rows = await tx.fetch_all(
        "SELECT id, url FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY id",
        organization_id=organization_id,
    )
    if len(rows) >= MOST_ENDPOINTS:
        raise Problem(
            "too_many_endpoints",
            f"The organization {endpoint.organization!r} has {len(rows)} endpoints, and there may "
            "be no more; `agentjobs webhooks remove` makes room.",
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
    await audit.write(tx, organization_id, entry)
    return [row["id"] for row in rows if row["url"] == endpoint.url]
