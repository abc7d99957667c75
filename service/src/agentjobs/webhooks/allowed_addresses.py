"""The allow list of webhook addresses: as configured, and as the running service uses it.

The service stores its list, so that commands apply the same one. On a laptop, receivers may run on
the same machine, but only while the operator is the only one who can add endpoints.
"""

import ipaddress

from agentjobs.organizations import effective_settings
from agentjobs.organizations.users import has_only_the_operator
from agentjobs.store.database import Database
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.settings import Settings, SettingsError

SETTING = "AGENTJOBS_WEBHOOKS_ALLOW"

_STORED_NAME = "webhooks_allow"
_STORED_LOOPBACK = "webhooks_allow_loopback"
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def configured_allow_list(settings: Settings) -> AllowList:
    try:
        return AllowList.parse(settings.webhooks_allow, setting=SETTING)
    except ValueError as error:
        raise SettingsError(f"{SETTING}: {error}") from None


def may_allow_loopback(settings: Settings, *, is_laptop: bool) -> bool:
    """False with an explicit list, or if everyone with an account at a provider may sign in."""
    return is_laptop and not settings.webhooks_allow and not settings.oidc_issuer


def with_loopback(allowed: AllowList) -> AllowList:
    return AllowList(allowed.networks + _LOOPBACK, SETTING)


async def store_allow_list(db: Database, allowed: AllowList, *, loopback: bool) -> None:
    """`loopback`: what `may_allow_loopback` returned for the running service."""
    networks = [str(network) for network in allowed.networks]
    await effective_settings.store_setting(db, _STORED_NAME, networks)
    await effective_settings.store_setting(db, _STORED_LOOPBACK, "yes" if loopback else "")


async def load_allow_list(db: Database, settings: Settings) -> AllowList:
    """The list of the service that started last; without one, the list of these settings."""
    networks = await effective_settings.load_setting(db, _STORED_NAME, list[str])
    if networks is None:
        return configured_allow_list(settings)
    allowed = AllowList.parse(networks, setting=SETTING)
    loopback = await effective_settings.load_setting(db, _STORED_LOOPBACK, str)
    if loopback == "yes" and await has_only_the_operator(db):
        return with_loopback(allowed)
    return allowed
