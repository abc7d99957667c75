"""The hosts that package managers of an ecosystem must reach."""

from yarl import URL

from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.registries import ECOSYSTEMS, public_registry

# The public index links to files on another host: its domain and name.
_PYPI_FILES = ("pythonhosted.org", "files.")


def hosts_for(settings: Settings, ecosystem: str) -> tuple[str, ...]:
    """Host patterns: the registry's first, then those that the operator added."""
    registry_url = settings.registry_url(ecosystem)
    url = URL(registry_url)
    hosts = [f"{bracket_ipv6(url.host or '')}:{url.port}"]
    if ecosystem == "PyPI" and registry_url == public_registry(ECOSYSTEMS[ecosystem]):
        domain, host = _PYPI_FILES
        hosts.append(f"{host}{domain}:443")
    return tuple(dict.fromkeys((*hosts, *settings.registry_hosts)))
