"""Creates, lists and revokes API keys. A key is shown once; the store holds only its hash."""

import msgspec

from agentjobs.clock import DAY_MS, iso_utc_or_none, now_ms
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.tokens import API_KEY_PREFIX, new_token, token_hash
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row, Transaction

SCOPES = ("read", "jobs")

_MAX_NAME_LENGTH = 200
_MAX_EXPIRES_DAYS = 3_650


class ApiKey(msgspec.Struct, frozen=True):
    id: str
    name: str
    hint: str
    scope: str
    git_write: bool
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


class CreatedKey(msgspec.Struct, frozen=True):
    key: str
    record: ApiKey


async def create_key(
    db: Database,
    organization: str,
    *,
    name: str = "",
    scope: str = "jobs",
    git_write: bool = False,
    expires_days: int | None = None,
) -> CreatedKey:
    _check(name, scope, git_write, expires_days)
    owner = await find_organization(db, organization)
    key = new_token(API_KEY_PREFIX)
    now = now_ms()
    record = ApiKey(
        id=new_id("key"),
        name=name or "unnamed",
        hint=f"{API_KEY_PREFIX}…{key[-4:]}",
        scope=scope,
        git_write=git_write,
        created_at=now,
        expires_at=None if expires_days is None else now + expires_days * DAY_MS,
        revoked_at=None,
        last_used_at=None,
    )
    entry = audit.entry(
        "api_key.created",
        record.name,
        key=record.id,
        scope=scope,
        git_write=git_write,
        expires_at=iso_utc_or_none(record.expires_at),
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


async def revoke_key(db: Database, organization: str, key: str) -> ApiKey:
    """`key` is the key's identifier or the key itself."""
    owner = await find_organization(db, organization)
    # The transaction fills in the name: `key` may be the key itself, which must not be stored.
    entry = audit.entry("api_key.revoked", "")
    revoked = await db.transact(_revoke, owner.id, key, entry)
    if revoked is None:
        raise Problem(
            "key_not_found",
            f"The organization {organization!r} has no such key; "
            "`agentjobs keys list` shows the identifiers.",
        )
    return revoked


def _check(name: str, scope: str, git_write: bool, expires_days: int | None) -> None:
    if scope not in SCOPES:
        raise Problem("invalid_scope", f"A key's scope is read or jobs, not {scope!r}.")
    if git_write and scope == "read":
        raise Problem("invalid_scope", "A key with the scope read cannot push to git.")
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise Problem(
            "invalid_name",
            f"A key's name must be one line of at most {_MAX_NAME_LENGTH} printable characters.",
        )
    if expires_days is not None and not 1 <= expires_days <= _MAX_EXPIRES_DAYS:
        raise Problem("invalid_expiry", f"A key must expire after 1 to {_MAX_EXPIRES_DAYS} days.")


async def _insert(
    tx: Transaction, organization_id: str, hashed: bytes, key: ApiKey, entry: audit.Entry
) -> None:
    await tx.execute(
        "INSERT INTO api_keys"
        " (id, organization_id, name, hint, hash, scope, git_write, created_at, expires_at)"
        " VALUES (:id, :organization_id, :name, :hint, :hash, :scope, :git_write, :created_at,"
        " :expires_at)",
        id=key.id,
        organization_id=organization_id,
        name=key.name,
        hint=key.hint,
        hash=hashed,
        scope=key.scope,
        git_write=key.git_write,
        created_at=key.created_at,
        expires_at=key.expires_at,
    )
    await audit.write(tx, organization_id, entry)


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
    now = now_ms()
    await tx.execute("UPDATE api_keys SET revoked_at = :now WHERE id = :id", id=record.id, now=now)
    revoked = msgspec.structs.replace(entry, target=record.name, details={"key": record.id})
    await audit.write(tx, organization_id, revoked)
    await tx.invalidate("keys")
    return msgspec.structs.replace(record, revoked_at=now)


def _api_key(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        name=row["name"],
        hint=row["hint"],
        scope=row["scope"],
        git_write=bool(row["git_write"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )
