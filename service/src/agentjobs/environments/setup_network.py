"""The hosts that the setup of environments may reach.

Pure. Setup has secrets and runs code of packages, so the default has no host at which anybody can
store files, such as api.github.com or storage.googleapis.com.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from agentjobs_runtime.outbound.guard.host_patterns import (
    DEFAULT_PORTS,
    bracket_ipv6,
    is_pattern,
    narrow_patterns,
    parse_pattern,
)
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, SettingsError
from agentjobs_runtime.settings.model import REGISTRIES
from agentjobs_runtime.settings.registries import ECOSYSTEMS

# What the usual clients contact, by domain: indexes, files and checksums.
_PUBLIC_HOSTS = {
    "pypi.org": ("",),
    "pythonhosted.org": ("files.",),
    "npmjs.org": ("registry.",),
    "yarnpkg.com": ("registry.", "repo."),
    "golang.org": ("proxy.", "sum."),
    "crates.io": ("", "index.", "static."),
    "maven.apache.org": ("repo.",),
    "maven.org": ("repo1.",),
    "gradle.org": ("plugins.", "plugins-artifacts."),
    "rubygems.org": ("", "index."),
    "packagist.org": ("", "repo."),
}


def setup_hosts(
    settings: Settings, organization_setup_network: Iterable[str] | None
) -> tuple[str, ...]:
    """Host patterns. An organization narrows those of the service; None leaves them unchanged."""
    granted = _expand(settings, settings.setup_network)
    if organization_setup_network is None:
        return granted
    return narrow_patterns(granted, _expand(settings, organization_setup_network))


def check_setup_network(settings: Settings) -> None:
    """Raises SettingsError for an entry that is not a host pattern."""
    try:
        for text in _expand(settings, settings.setup_network):
            parse_pattern(text)
    except ValueError as error:
        raise SettingsError(f"setup_network: {error}") from None


def check_organization_hosts(settings: Settings, requested: Iterable[str]) -> None:
    """Raises Problem for hosts that are invalid, or that the service does not allow."""
    hosts = _expand(settings, requested)
    try:
        allowed = setup_hosts(settings, hosts)
    except ValueError as error:
        raise Problem("invalid_host", f"{error}.") from None
    if missing := [host for host in hosts if host not in allowed]:
        raise Problem(
            "invalid_host",
            f"{', '.join(missing)}: not allowed by the setting setup_network, to which the "
            "operator can add hosts.",
        )


def _expand(settings: Settings, hosts: Iterable[str]) -> tuple[str, ...]:
    """Adds the hosts that `registries` stands for."""
    expanded = (
        host
        for entry in hosts
        for host in (_registry_hosts(settings) if entry.strip() == REGISTRIES else (entry.strip(),))
    )
    return tuple(dict.fromkeys(expanded))


def _registry_hosts(settings: Settings) -> tuple[str, ...]:
    """Skips addresses on localhost, which a sandbox cannot reach."""
    configured = (_host(settings.registry_url(ecosystem)) for ecosystem in ECOSYSTEMS)
    public = (f"{name}{domain}" for domain, names in _PUBLIC_HOSTS.items() for name in names)
    hosts = (*public, *configured, *settings.registry_hosts)
    return tuple(host for host in hosts if is_pattern(host))


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = bracket_ipv6(parts.hostname or "")
    return host if parts.port is None or parts.port in DEFAULT_PORTS else f"{host}:{parts.port}"
