"""Checks settings that the features read only when a service starts."""

from collections.abc import Callable

from agentjobs.app.outbound_setup import build_allow_list
from agentjobs.environments.setup_network import check_setup_network
from agentjobs.gateway.prices import load_prices
from agentjobs.web.client_addresses import ClientAddresses
from agentjobs.webhooks.allowed_addresses import configured_allow_list
from agentjobs.worker_part.agents import build_catalog
from agentjobs_runtime.settings import Settings

# By the subject of a check of `agentjobs doctor`. Each raises SettingsError and opens nothing.
FEATURE_CHECKS: tuple[tuple[str, Callable[[Settings], object]], ...] = (
    ("environments", check_setup_network),
    ("agents", build_catalog),
    ("prices", load_prices),
    ("network", build_allow_list),
    ("webhooks", configured_allow_list),
    ("network", lambda settings: ClientAddresses(settings.trusted_proxies)),
)


def check_features(settings: Settings) -> None:
    """Raises SettingsError for what `serve` or a worker would refuse."""
    for _, check in FEATURE_CHECKS:
        check(settings)
