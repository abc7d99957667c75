"""Which addresses webhooks may reach in spite of the deny table: what is set, and what is in force.

The service that sends tells it in the store, so that a command judges as the service will.
"""

import ipaddress

import msgspec

from agentjobs.clock import now_ms
from agentjobs.outbound.addresses import Allowed
from agentjobs.settings import Settings, SettingsError
from agentjobs.store.database import Database, Transaction

SETTING = "AGENTJOBS_WEBHOOKS_ALLOW"

_STORED_NAME = "webhooks_allow"
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_texts = msgspec.json.Decoder(list[str])


def effective_allowance(settings: Settings, *, is_laptop: bool) -> Allowed:
    """On a laptop, where everything is one person's, receivers may run on the same machine."""
    try:
        allowed = Allowed.parse(settings.webhooks_allow, setting=SETTING)
    except ValueError as error:
        raise SettingsError(f"{SETTING}: {error}") from None
    if not is_laptop:
        return allowed
    missing = tuple(network for network in _LOOPBACK if network not in allowed.networks)
    return Allowed(allowed.networks + missing, SETTING)


async def store_allowance(db: Database, allowed: Allowed) -> None:
    texts = [str(network) for network in allowed.networks]
    await db.transact(_store, msgspec.json.encode(texts).decode())


async def stored_allowance(db: Database, settings: Settings) -> Allowed:
    """That of the service that started last; before there was one, that of these settings."""
    row = await db.fetch_one(
        "SELECT value FROM effective_settings WHERE name = :name", name=_STORED_NAME
    )
    if row is None:
        return effective_allowance(settings, is_laptop=False)
    return Allowed.parse(_texts.decode(row["value"]), setting=SETTING)


async def _store(tx: Transaction, value: str) -> None:
    await tx.execute(
        "INSERT INTO effective_settings (name, value, updated_at) VALUES (:name, :value, :now)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value,"
        " updated_at = excluded.updated_at",
        name=_STORED_NAME,
        value=value,
        now=now_ms(),
    )
