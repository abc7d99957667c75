"""Which addresses webhooks may reach in spite of the deny table: what is set, and what is in force.

The service that sends tells it in the store, so that a command judges as the service will.
"""

import ipaddress

import msgspec

from agentjobs.organizations import effective_settings
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.settings import Settings, SettingsError
from agentjobs.store.database import Database

SETTING = "AGENTJOBS_WEBHOOKS_ALLOW"

_STORED_NAME = "webhooks_allow"
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_texts = msgspec.json.Decoder(list[str])


def effective_allow_list(settings: Settings, *, is_laptop: bool) -> AllowList:
    """On a laptop, where everything is one person's, receivers may run on the same machine."""
    try:
        allowed = AllowList.parse(settings.webhooks_allow, setting=SETTING)
    except ValueError as error:
        raise SettingsError(f"{SETTING}: {error}") from None
    if not is_laptop:
        return allowed
    missing = tuple(network for network in _LOOPBACK if network not in allowed.networks)
    return AllowList(allowed.networks + missing, SETTING)


async def store_allow_list(db: Database, allowed: AllowList) -> None:
    texts = [str(network) for network in allowed.networks]
    await effective_settings.store_setting(db, _STORED_NAME, texts)


async def load_allow_list(db: Database, settings: Settings) -> AllowList:
    """That of the service that started last; before there was one, that of these settings."""
    told = await effective_settings.load_setting(db, _STORED_NAME)
    if told is None:
        return effective_allow_list(settings, is_laptop=False)
    return AllowList.parse(_texts.decode(told), setting=SETTING)
