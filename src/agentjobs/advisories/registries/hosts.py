"""The hosts that the tools of an ecosystem have to reach in order to install its packages."""

from yarl import URL

from agentjobs.outbound.guard.host_patterns import bracket_ipv6
from agentjobs.settings import Settings
from agentjobs.settings.registries import ECOSYSTEMS, public_registry

# The public index only lists files, which are somewhere else: the domain, and the host in it.
_FILES_OF_PYPI = ("pythonhosted.org", "files.")


def hosts_for(settings: Settings, ecosystem: str) -> tuple[str, ...]:
    """As patterns of hosts: the registry's own first, then what the operator adds."""
    address = settings.registry_url(ecosystem)
    url = URL(address)
    found = [f"{bracket_ipv6(url.host or '')}:{url.port}"]
    if ecosystem == "PyPI" and address == public_registry(ECOSYSTEMS[ecosystem]):
        domain, host = _FILES_OF_PYPI
        found.append(f"{host}{domain}:443")
    return tuple(dict.fromkeys((*found, *settings.registry_hosts)))
