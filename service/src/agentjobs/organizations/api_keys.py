"""Creates, lists, edits and revokes API keys. A key is shown once; only its hash is stored."""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.key_networks import join_networks, parse_networks, split_networks
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.tokens import API_KEY_PREFIX, new_token, token_hash
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.clock import DAY_MS, iso_utc_or_none
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem

Scope = Literal["read", "jobs", "pulls"]

# `jobs` includes `read`; `pulls` is only given in addition to `jobs`.
SCOPES: tuple[Scope, ...] = get_args(Scope)

_MAX_NAME_LENGTH = 200
_MAX_EXPIRES_DAYS = 3_650


class ApiKey(msgspec.Struct, frozen=True):
    id: str
    name: str
    hint: str
    # Scopes, separated by spaces.
    scope: str
    git_write: bool
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None
    allowed_networks: tuple[str, ...] = ()
    """CIDR ranges; empty if the key may be used from any address."""

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(self.scope.split())


class KeyChanges(msgspec.Struct, frozen=True, kw_only=True):
    """UNSET fields stay as they are; with None as `expires_at`, the key never expires."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    expires_at: int | msgspec.UnsetType | None = msgspec.UNSET
    allowed_networks: Sequence[str] | msgspec.UnsetType = msgspec.UNSET


class CreatedKey(msgspec.Struct, frozen=True):
    key: str
    record: ApiKey


async def create_key(
    db: Database,
    organization: str,
    *,
    name: str = "",
    scope: str = "jobs",
    pulls: bool = False,
    git_write: bool = False,
    expires_days: int | None = None,
    expires_at: int | None = None,
    allowed_networks: Sequence[str] = (),
) -> CreatedKey:
    now = await db.clock_ms()
    if expires_days is not None:
        _check_days(expires_days)
        expires_at = now + expires_days * DAY_MS
    scope = _join_scopes(scope, pulls=pulls, git_write=git_write)
    _check_name(name)
    _check_expiry(expires_at, now)
    networks = parse_networks(allowed_networks)
    owner = await find_organization(db, organization)
    key = new_token(API_KEY_PREFIX)
    record = ApiKey(
        id=new_id("key"),
        name=name or "unnamed",
        hint=f"{API_KEY_PREFIX}…{key[-4:]}",
        scope=scope,
        git_write=git_write,
        created_at=now,
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
        allowed_networks=tuple(map(str, networks)),
    )
    entry = audit.entry(
        "api_key.created",
        record.name,
        key=record.id,
        scope=scope,
        git_write=git_write,
        expires_at=iso_utc_or_none(record.expires_at),
        **({"allowed_networks": join_networks(networks)} if networks else {}),
    )
    await db.transact(_insert, owner.id, token_hash(key), record, entry)
    return CreatedKey(key, record)


async def list_keys(db: Database, organization: str) -> list[ApiKey]:
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT * FROM api_keys WHERE organization_id = :organization_id ORDER BY id",
        organization_id=owner.id,
    )
    return [_api_key(row) for row in rows]


async def find_key(db: Database, organization_id: str, key_id: str) -> ApiKey | None:
    row = await db.fetch_one(
        "SELECT * FROM api_keys WHERE organization_id = :organization_id AND id = :id",
        organization_id=organization_id,
        id=key_id,
    )
    return None if row is None else _api_key(row)


async def edit_key(db: Database, organization: str, key_id: str, changes: KeyChanges) -> ApiKey:
    """Takes effect in every process within a second."""
    if changes.name is not msgspec.UNSET:
        _check_name(changes.name)
    if changes.expires_at is not msgspec.UNSET:
        _check_expiry(changes.expires_at, await db.clock_ms())
    if changes.allowed_networks is not msgspec.UNSET:
        networks = parse_networks(changes.allowed_networks)
        changes = msgspec.structs.replace(changes, allowed_networks=tuple(map(str, networks)))
    owner = await find_organization(db, organization)
    entry = audit.entry("api_key.edited", "")
    edited = await db.transact(_edit, owner.id, key_id, changes, entry)
    if edited is None:
        raise _not_found(organization)
    return edited


async def revoke_key(db: Database, organization: str, key: str) -> ApiKey:
    """`key` is the key's identifier or the key itself."""
    owner = await find_organization(db, organization)
    # The transaction fills in the name: `key` may be the key itself, which must not be stored.
    entry = audit.entry("api_key.revoked", "")
    revoked = await db.transact(_revoke, owner.id, key, entry)
    if revoked is None:
        raise _not_found(organization)
    return revoked


def _join_scopes(scope: str, *, pulls: bool, git_write: bool) -> str:
    if scope not in {"read", "jobs"}:
        raise Problem("invalid_scope", f"A key's scope is read or jobs, not {scope!r}.")
    if git_write and scope == "read":
        raise Problem("invalid_scope", "A key with the scope read cannot push to git.")
    if pulls and scope == "read":
        raise Problem("invalid_scope", "A key with the scope read cannot merge pull requests.")
    return f"{scope} pulls" if pulls else scope


def _check_name(name: str) -> None:
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise Problem(
            "invalid_name",
            f"A key's name must be one line of at most {_MAX_NAME_LENGTH} printable characters.",
        )


def _check_days(expires_days: int) -> None:
    if not 1 <= expires_days <= _MAX_EXPIRES_DAYS:
        raise Problem("invalid_expiry", f"A key must expire after 1 to {_MAX_EXPIRES_DAYS} days.")


def _check_expiry(expires_at: int | None, now: int) -> None:
    if expires_at is not None and not now < expires_at <= now + _MAX_EXPIRES_DAYS * DAY_MS:
        raise Problem(
            "invalid_expiry",
            f"A key must expire in the future, within {_MAX_EXPIRES_DAYS} days, or never.",
        )


def _not_found(organization: str) -> Problem:
    return Problem(
        "key_not_found",
        f"The organization {organization!r} has no such key; "
        "`agentjobs keys list` shows the identifiers.",
    )


async def _insert(
    tx: Transaction, organization_id: str, hashed: bytes, key: ApiKey, entry: audit.Entry
) -> None:
    await tx.execute(
        "INSERT INTO api_keys"
        " (id, organization_id, name, hint, hash, scope, git_write, created_at, expires_at,"
        " allowed_networks)"
        " VALUES (:id, :organization_id, :name, :hint, :hash, :scope, :git_write, :created_at,"
        " :expires_at, :allowed_networks)",
        id=key.id,
        organization_id=organization_id,
        name=key.name,
        hint=key.hint,
        hash=hashed,
        scope=key.scope,
        git_write=key.git_write,
        created_at=key.created_at,
        expires_at=key.expires_at,
        allowed_networks=",".join(key.allowed_networks) or None,
    )
    await audit.write(tx, organization_id, entry)


async def _edit(
    tx: Transaction, organization_id: str, key_id: str, changes: KeyChanges, entry: audit.Entry
) -> ApiKey | None:
    row = await tx.fetch_one(
        "SELECT * FROM api_keys WHERE organization_id = :organization_id AND id = :id"
        " /*postgresql FOR UPDATE */",
        organization_id=organization_id,
        id=key_id,
    )
    if row is None:
        return None
    before = _api_key(row)
    if before.revoked_at is not None:
        raise Problem("key_revoked", "This key was revoked; create another one.")
    given = {
        name: value
        for name, value in msgspec.structs.asdict(changes).items()
        if value is not msgspec.UNSET
    }
    after = msgspec.structs.replace(before, **given)
    if after == before:
        return before
    await tx.execute(
        "UPDATE api_keys SET name = :name, expires_at = :expires_at,"
        " allowed_networks = :allowed_networks WHERE id = :id",
        id=key_id,
        name=after.name,
        expires_at=after.expires_at,
        allowed_networks=",".join(after.allowed_networks) or None,
    )
    details = {"key": key_id, **_describe_changes(before, after)}
    edited = msgspec.structs.replace(entry, target=after.name, details=details)
    await audit.write(tx, organization_id, edited)
    await tx.invalidate("keys")
    return after


def _describe_changes(before: ApiKey, after: ApiKey) -> dict[str, str | None]:
    """The new values of what changed."""
    values = {
        "name": (before.name, after.name),
        "expires_at": (iso_utc_or_none(before.expires_at), iso_utc_or_none(after.expires_at)),
        "allowed_networks": (
            ",".join(before.allowed_networks) or None,
            ",".join(after.allowed_networks) or None,
        ),
    }
    return {name: new for name, (old, new) in values.items() if old != new}


async def _revoke(
    tx: Transaction, organization_id: str, key: str, entry: audit.Entry
) -> ApiKey | None:
    row = await tx.fetch_one(
        "SELECT * FROM api_keys"
        " WHERE organization_id = :organization_id AND (id = :key OR hash = :hash)"
        " /*postgresql FOR UPDATE */",
        organization_id=organization_id,
        key=key,
        hash=token_hash(key),
    )
    if row is None:
        return None
    record = _api_key(row)
    if record.revoked_at is not None:
        return record
    now = await tx.clock_ms()
    await tx.execute("UPDATE api_keys SET revoked_at = :now WHERE id = :id", id=record.id, now=now)
    revoked = msgspec.structs.replace(entry, target=record.name, details={"key": record.id})
    await audit.write(tx, organization_id, revoked)
    await tx.invalidate("keys")
    return msgspec.structs.replace(record, revoked_at=now)


def _api_key(row: Row) -> ApiKey:
    networks = tuple(split_networks(row["allowed_networks"]))
    return to_struct(row, ApiKey, git_write=bool(row["git_write"]), allowed_networks=networks)
