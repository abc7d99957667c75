"""The audit log: who did what, when and from which address.

Entries are written in the transaction of the change. Pages, commands and the API set the actor;
operations name the action.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec

from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.identifiers import creation_time_ms, first_id_at, new_id

P = ParamSpec("P")
T = TypeVar("T")

ActorKind = Literal["user", "key", "operator", "service"]

_MAX_TARGET_LENGTH = 500


class Actor(msgspec.Struct, frozen=True):
    """`name` is the display name; `address` is the network address of the request."""

    kind: ActorKind
    name: str
    id: str | None = None
    address: str = ""


class Entry(msgspec.Struct, frozen=True):
    """An entry to write. The actor is the one who acted when the entry was created."""

    actor: Actor
    action: str
    target: str
    details: dict[str, Any]


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`actor` is the display name at that time; users choose it, unlike `actor_email`."""

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
    """None matches everything. `action` is an action (`api_key.created`) or its prefix (`api_key`).

    `actor` is a full display name or an e-mail address.
    """

    actor: str | None = None
    actor_id: str | None = None
    action: str | None = None
    since: int | None = None
    until: int | None = None


SERVICE = Actor("service", "agentjobs")
_actor: ContextVar[Actor] = ContextVar("actor", default=SERVICE)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def current_actor() -> Actor:
    return _actor.get()


def in_transaction(
    work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Database, P], Coroutine[Any, Any, T]]:
    """A function that gets the database and runs `work` with `transact`, as its caller acts."""

    @wraps(work)
    async def run(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        actor = current_actor()

        async def act(tx: Transaction) -> T:
            with acting_as(actor):
                return await work(tx, *args, **kwargs)

        return await db.transact(act)

    return run


def entry(action: str, target: str, /, **details: Any) -> Entry:
    """Inside a transaction the actor is only known with `in_transaction`."""
    return Entry(_actor.get(), action, target[:_MAX_TARGET_LENGTH], details)


async def write(tx: Transaction, organization_id: str, entry: Entry) -> None:
    """`at` is the identifier's own time, because queries compare times by identifier."""
    identifier = new_id("aud")
    await tx.execute(
        "INSERT INTO audit_log (id, organization_id, at, actor_kind, actor_id, actor, action,"
        " target, details, address) VALUES (:id, :organization_id, :at, :actor_kind, :actor_id,"
        " :actor, :action, :target, :details, :address)",
        id=identifier,
        organization_id=organization_id,
        at=creation_time_ms(identifier),
        actor_kind=entry.actor.kind,
        actor_id=entry.actor.id,
        actor=entry.actor.name,
        action=entry.action,
        target=entry.target,
        details=msgspec.json.encode(entry.details).decode(),
        address=entry.actor.address,
    )


async def record(
    tx: Transaction, organization_id: str, action: str, target: str, /, **details: Any
) -> None:
    """Writes what the current actor does."""
    await write(tx, organization_id, entry(action, target, **details))


def acting_user(user_id: str, display_name: str, address: str) -> Actor:
    """A user who acts before a session exists, such as by signing in."""
    return Actor("user", display_name, user_id, address)


async def write_for_user(tx: Transaction, user_id: str, entry: Entry) -> None:
    """Write the entry to the log of every organization that the user is a member of."""
    rows = await tx.fetch_all(
        "SELECT organization_id FROM memberships WHERE user_id = :user_id ORDER BY organization_id",
        user_id=user_id,
    )
    for row in rows:
        await write(tx, row["organization_id"], entry)


async def list_entries(
    db: Database,
    organization_id: str,
    filters: AuditFilter,
    *,
    limit: int,
    before: str | None = None,
) -> list[AuditRecord]:
    """Newest first; `before` is the identifier of the last record of the previous page."""
    rows = await db.fetch_all(
        _statement(filters),
        organization_id=organization_id,
        before=min(before or _END, _END if filters.until is None else _first_id(filters.until)),
        since=_first_id(filters.since or 0),
        actor=filters.actor,
        email=(filters.actor or "").strip().lower(),
        actor_id=filters.actor_id,
        action=filters.action,
        limit=limit,
    )
    return [_record(row) for row in rows]


def _statement(filters: AuditFilter) -> str:
    """Contains only the given filters, and limits the page before joining users: PostgreSQL would
    read the whole log otherwise."""
    conditions = "".join(
        f" AND {condition}"
        for condition, value in (
            (_ACTOR_CONDITION, filters.actor),
            ("actor_id = :actor_id", filters.actor_id),
            (_ACTION_CONDITION, filters.action),
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


_ACTOR_CONDITION = (
    "(actor = :actor OR actor_kind = 'user'"
    " AND actor_id IN (SELECT v.id FROM users v WHERE v.email = :email))"
)
_ACTION_CONDITION = "(action = :action OR SUBSTR(action, 1, LENGTH(:action) + 1) = :action || '.')"
# Sorts after every identifier.
_END = "aud_" + "z" * 26


def _first_id(at_ms: int) -> str:
    return first_id_at("aud", at_ms)


def _record(row: Row) -> AuditRecord:
    details = msgspec.json.decode(row["details"], type=dict[str, Any])
    return to_struct(row, AuditRecord, details=details)
