"""Checks settings that the features read only when a service starts."""

from agentjobs.app.outbound_setup import build_allow_list
from agentjobs.environments.setup_network import check_setup_network
from agentjobs.gateway.prices import load_prices
from agentjobs.web.client_addresses import ClientAddresses
from agentjobs.webhooks.allowed_addresses import configured_allow_list
from agentjobs.workers.agents import build_catalog
from agentjobs_runtime.settings import Settings


def check_features(settings: Settings) -> None:
    """Raises SettingsError for what `serve` or a worker would refuse. Opens nothing."""
    check_setup_network(settings)
    build_catalog(settings)
    load_prices(settings)
    build_allow_list(settings)
    configured_allow_list(settings)
    ClientAddresses(settings.trusted_proxies)
