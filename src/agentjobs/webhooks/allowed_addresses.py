"""The allow list of webhook addresses: as configured, and as the running service uses it.

The service stores its list, so that commands apply the same one.
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
_decode_networks = msgspec.json.Decoder(list[str]).decode


def effective_allow_list(settings: Settings, *, is_laptop: bool) -> AllowList:
    """On a laptop, which one person uses, receivers may run on the same machine."""
    try:
        allowed = AllowList.parse(settings.webhooks_allow, setting=SETTING)
    except ValueError as error:
        raise SettingsError(f"{SETTING}: {error}") from None
    if not is_laptop:
        return allowed
    missing = tuple(network for network in _LOOPBACK if network not in allowed.networks)
    return AllowList(allowed.networks + missing, SETTING)


async def store_allow_list(db: Database, allowed: AllowList) -> None:
    networks = [str(network) for network in allowed.networks]
    await effective_settings.store_setting(db, _STORED_NAME, networks)


async def load_allow_list(db: Database, settings: Settings) -> AllowList:
    """The list of the service that started last; without one, the list of these settings."""
    stored = await effective_settings.load_setting(db, _STORED_NAME)
    if stored is None:
        return effective_allow_list(settings, is_laptop=False)
    return AllowList.parse(_decode_networks(stored), setting=SETTING)
