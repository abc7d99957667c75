"""Who did what, when, from where: written in the transaction of the change itself.

The edges (a page, a command, the API) say who acts; operations say what was done. Read here, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import msgspec

from agentjobs.identifiers import first_id_at, new_id, time_of
from agentjobs.store.database import Database, Row, Transaction

ActorKind = Literal["user", "key", "operator", "service"]

_MOST_TARGET_LENGTH = 500


class Actor(msgspec.Struct, frozen=True):
    """`name` is what people call it; `address` is where the request came from."""

    kind: ActorKind
    name: str
    id: str | None = None
    address: str = ""


class Entry(msgspec.Struct, frozen=True):
    """What is going to be written, by whoever acted when it was made."""

    actor: Actor
    action: str
    target: str
    details: dict[str, Any]


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`actor` is what it was called then, which people choose; a person's e-mail address is not."""

    id: str
    at: int
    actor_kind: ActorKind
    actor_id: str | None
    actor: str
    actor_email: str | None
    action: str
    target: str
    details: dict[str, Any]
    address: str


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None: any. `action` is a whole action (`api_key.created`) or its first word (`api_key`).

    `actor` is a whole name or a person's e-mail address.
    """

    actor: str | None = None
    actor_id: str | None = None
    action: str | None = None
    since: int | None = None
    until: int | None = None


SERVICE = Actor("service", "agentjobs")
_acting: ContextVar[Actor] = ContextVar("acting", default=SERVICE)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


def current_actor() -> Actor:
    return _acting.get()


def entry(action: str, target: str, /, **details: Any) -> Entry:
    """To be made before the transaction: inside it nobody knows any more who acts."""
    return Entry(_acting.get(), action, target[:_MOST_TARGET_LENGTH], details)


async def write(tx: Transaction, organization_id: str, entry: Entry) -> None:
    """The moment is its identifier's: times are looked for by identifier."""
    identifier = new_id("aud")
    await tx.execute(
        "INSERT INTO audit_log (id, organization_id, at, actor_kind, actor_id, actor, action,"
        " target, details, address) VALUES (:id, :organization_id, :at, :actor_kind, :actor_id,"
        " :actor, :action, :target, :details, :address)",
        id=identifier,
        organization_id=organization_id,
        at=time_of(identifier),
        actor_kind=entry.actor.kind,
        actor_id=entry.actor.id,
        actor=entry.actor.name,
        action=entry.action,
        target=entry.target,
        details=msgspec.json.encode(entry.details).decode(),
        address=entry.actor.address,
    )


async def list_entries(
    db: Database,
    organization_id: str,
    wanted: AuditFilter,
    *,
    limit: int,
    before: str | None = None,
) -> list[AuditRecord]:
    """Newest first; `before` is the identifier of the last one already seen."""
    rows = await db.fetch_all(
        _statement(wanted),
        organization_id=organization_id,
        before=min(before or _END, _END if wanted.until is None else _first_id(wanted.until)),
        since=_first_id(wanted.since or 0),
        actor=wanted.actor,
        email=(wanted.actor or "").strip().lower(),
        actor_id=wanted.actor_id,
        action=wanted.action,
        limit=limit,
    )
    return [_record(row) for row in rows]


def _statement(wanted: AuditFilter) -> str:
    """Only what was asked for, and the page before the people on it: a plan for any filter, or of
    all at once, would read the whole log on PostgreSQL."""
    conditions = "".join(
        f" AND {condition}"
        for condition, value in (
            (_BY_ACTOR, wanted.actor),
            ("actor_id = :actor_id", wanted.actor_id),
            (_OF_ACTION, wanted.action),
        )
        if value is not None
    )
    return (
        "WITH page AS MATERIALIZED (SELECT * FROM audit_log"
        " WHERE organization_id = :organization_id AND id < :before AND id >= :since"
        f"{conditions} ORDER BY id DESC LIMIT :limit)"
        " SELECT page.*, u.email AS actor_email FROM page"
        " LEFT JOIN users u ON page.actor_kind = 'user' AND u.id = page.actor_id"
        " ORDER BY page.id DESC"
    )


_BY_ACTOR = (
    "(actor = :actor OR actor_kind = 'user'"
    " AND actor_id IN (SELECT v.id FROM users v WHERE v.email = :email))"
)
_OF_ACTION = "(action = :action OR SUBSTR(action, 1, LENGTH(:action) + 1) = :action || '.')"
# Above every identifier.
_END = "aud_" + "z" * 26


def _first_id(at_ms: int) -> str:
    return first_id_at("aud", at_ms)


def _record(row: Row) -> AuditRecord:
    return AuditRecord(
        id=row["id"],
        at=row["at"],
        actor_kind=row["actor_kind"],
        actor_id=row["actor_id"],
        actor=row["actor"],
        actor_email=row["actor_email"],
        action=row["action"],
        target=row["target"],
        details=msgspec.json.decode(row["details"], type=dict[str, Any]),
        address=row["address"],
    )
