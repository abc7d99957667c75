"""Authenticates API keys: turns a bearer token into a Caller, from a cache where that is safe.

The cache is cleared whenever a key or an organization changes in any process, and bypassed while
changes could be missed.
"""

import hmac

import msgspec

from agentjobs.organizations.key_networks import (
    Network,
    contains_address,
    parse_networks,
    split_networks,
)
from agentjobs.organizations.tokens import API_KEY_PREFIX, is_well_formed, token_hash
from agentjobs.store.database import Database, StoreUnavailable, Transaction, to_struct
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem

# The `key_id` of jobs that the service creates by itself.
SERVICE_ID = "agentjobs"
_MAX_CACHED = 10_000


class Caller(msgspec.Struct, frozen=True):
    """An organization, accessed with one of its keys or by one of its users.

    `key_id` is the identifier of the key or the user, `name` its display name.
    """

    organization_id: str
    organization: str
    plan: str
    key_id: str
    scope: str
    git_write: bool
    name: str = ""


class AddressNotAllowed(Problem):
    """The key is valid, but not for this client."""

    def __init__(self, address: str) -> None:
        where = f"the address {address}" if address else "here"
        super().__init__(
            "unauthorized",
            f"This API key must not be used from {where}; an admin can change its networks.",
        )


class _CachedKey(msgspec.Struct, frozen=True):
    """`networks` is empty if the key may be used from any address."""

    caller: Caller
    expires_at: int | None
    networks: tuple[Network, ...]


class ApiKeyAuthenticator:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._cached: dict[bytes, _CachedKey] = {}
        self._generation = 0
        self._used: dict[str, int] = {}
        for topic in ("keys", "organizations"):
            db.changes.on(topic, self._clear)

    async def authenticate(self, token: str, address: str = "") -> Caller | None:
        """None for a token that is malformed, unknown, expired or revoked.

        Raises AddressNotAllowed if the key has networks and the client's address is in none.
        """
        hashed = token_hash(token)
        known = self._cached.get(hashed) if self._db.changes.may_use_caches() else None
        if known is None and is_well_formed(token, API_KEY_PREFIX):
            known = await self._read(hashed)
        if known is None:
            return None
        if known.expires_at is not None and known.expires_at <= await self._db.clock_ms():
            return None
        if known.networks and not contains_address(known.networks, address):
            raise AddressNotAllowed(address)
        self._used[known.caller.key_id] = now_ms()
        return known.caller

    async def flush_last_used(self) -> None:
        """Store when keys were last used. Runs periodically instead of per request."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._db.transact(_record_use, used)
        except StoreUnavailable:
            self._used = used | self._used
            raise

    def _clear(self) -> None:
        self._generation += 1
        self._cached.clear()

    async def _read(self, hashed: bytes) -> _CachedKey | None:
        generation = self._generation
        row = await self._db.fetch_one(
            "SELECT k.id, k.hash, k.name, k.scope, k.git_write, k.expires_at, k.allowed_networks,"
            " o.id AS organization_id, o.name AS organization, o.plan"
            " FROM api_keys k JOIN organizations o ON o.id = k.organization_id"
            " WHERE k.hash = :hash AND k.revoked_at IS NULL",
            hash=hashed,
        )
        if row is None or not hmac.compare_digest(bytes(row["hash"]), hashed):
            return None
        caller = to_struct(row, Caller, key_id=row["id"], git_write=bool(row["git_write"]))
        networks = parse_networks(split_networks(row["allowed_networks"]))
        known = _CachedKey(caller, row["expires_at"], networks)
        # A change that arrived during the read may concern this key: do not cache the row then.
        if generation == self._generation:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[hashed] = known
        return known


async def _record_use(tx: Transaction, used: dict[str, int]) -> None:
    # Every server updates in the same order; otherwise two of them could deadlock.
    for key_id, at_ms in sorted(used.items()):
        await tx.execute(
            "UPDATE api_keys SET last_used_at = :at WHERE id = :id", id=key_id, at=at_ms
        )
