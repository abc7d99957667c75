"""Creates, lists, edits and revokes API keys. A key is shown once; only its hash is stored."""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.key_networks import join_networks, parse_networks, split_networks
from agentjobs.organizations.organizations import Organization, find_organization
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


@audit.in_transaction
async def create_key(
    tx: Transaction,
    organization: str,
    *,
    name: str = "",
    scope: str = "jobs",
    pulls: bool = False,
    git_write: bool = False,
    expires_at: int | None = None,
    allowed_networks: Sequence[str] = (),
) -> CreatedKey:
    now = await tx.clock_ms()
    scope = _join_scopes(scope, pulls=pulls, git_write=git_write)
    _check_name(name)
    _check_expiry(expires_at, now)
    networks = parse_networks(allowed_networks)
    owner = await find_organization(tx, organization)
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
    await tx.execute(
        "INSERT INTO api_keys"
        " (id, organization_id, name, hint, hash, scope, git_write, created_at, expires_at,"
        " allowed_networks)"
        " VALUES (:id, :organization_id, :name, :hint, :hash, :scope, :git_write, :created_at,"
        " :expires_at, :allowed_networks)",
        id=record.id,
        organization_id=owner.id,
        name=record.name,
        hint=record.hint,
        hash=token_hash(key),
        scope=scope,
        git_write=git_write,
        created_at=now,
        expires_at=expires_at,
        allowed_networks=join_networks(networks),
    )
    await audit.record(
        tx,
        owner.id,
        "api_key.created",
        record.name,
        key=record.id,
        scope=scope,
        git_write=git_write,
        expires_at=iso_utc_or_none(record.expires_at),
        **({"allowed_networks": join_networks(networks)} if networks else {}),
    )
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


@audit.in_transaction
async def edit_key(tx: Transaction, organization: str, key_id: str, changes: KeyChanges) -> ApiKey:
    """Takes effect in every process within a second."""
    given = {
        name: value
        for name, value in msgspec.structs.asdict(changes).items()
        if value is not msgspec.UNSET
    }
    if "name" in given:
        _check_name(given["name"])
    if "expires_at" in given:
        _check_expiry(given["expires_at"], await tx.clock_ms())
    if "allowed_networks" in given:
        networks = parse_networks(given["allowed_networks"])
        given["allowed_networks"] = tuple(map(str, networks))
    owner = await find_organization(tx, organization)
    before = await _lock_key(tx, owner, key_id)
    if before.revoked_at is not None:
        raise Problem("key_revoked", "This key was revoked; create another one.")
    after = msgspec.structs.replace(before, **given)
    if after == before:
        return before
    await tx.execute(
        "UPDATE api_keys SET name = :name, expires_at = :expires_at,"
        " allowed_networks = :allowed_networks WHERE id = :id",
        id=after.id,
        name=after.name,
        expires_at=after.expires_at,
        allowed_networks=",".join(after.allowed_networks) or None,
    )
    changed = _describe_changes(before, after)
    await audit.record(tx, owner.id, "api_key.edited", after.name, key=after.id, **changed)
    await tx.invalidate("keys")
    return after


@audit.in_transaction
async def revoke_key(tx: Transaction, organization: str, key: str) -> ApiKey:
    """`key` is the key's identifier or the key itself, which must not be stored."""
    owner = await find_organization(tx, organization)
    record = await _lock_key(tx, owner, key)
    if record.revoked_at is not None:
        return record
    now = await tx.clock_ms()
    await tx.execute("UPDATE api_keys SET revoked_at = :now WHERE id = :id", id=record.id, now=now)
    await audit.record(tx, owner.id, "api_key.revoked", record.name, key=record.id)
    await tx.invalidate("keys")
    return msgspec.structs.replace(record, revoked_at=now)


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


def _check_expiry(expires_at: int | None, now: int) -> None:
    if expires_at is not None and not now < expires_at <= now + _MAX_EXPIRES_DAYS * DAY_MS:
        raise Problem(
            "invalid_expiry",
            f"A key must expire in the future, within {_MAX_EXPIRES_DAYS} days, or never.",
        )


async def _lock_key(tx: Transaction, owner: Organization, key: str) -> ApiKey:
    row = await tx.fetch_one(
        "SELECT * FROM api_keys"
        " WHERE organization_id = :organization_id AND (id = :key OR hash = :hash)"
        " /*postgresql FOR UPDATE */",
        organization_id=owner.id,
        key=key,
        hash=token_hash(key),
    )
    if row is None:
        raise Problem(
            "key_not_found",
            f"The organization {owner.name!r} has no such key; "
            "`agentjobs keys list` shows the identifiers.",
        )
    return _api_key(row)


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


def _api_key(row: Row) -> ApiKey:
    networks = tuple(split_networks(row["allowed_networks"]))
    return to_struct(row, ApiKey, git_write=bool(row["git_write"]), allowed_networks=networks)
