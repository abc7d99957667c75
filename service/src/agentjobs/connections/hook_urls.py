"""The URLs of webhooks that platforms send to this service. Pure."""

import ipaddress
from urllib.parse import urlsplit

from agentjobs_runtime.settings import is_loopback

_PUBLIC_PLATFORMS = ("github.com", "gitlab.com")
_PUBLIC_SUFFIXES = (".ghe.com",)


def hook_path(platform: str, connection_id: str, repo_id: str = "") -> str:
    """The path of the connection's own webhook, or of one registered for a repository."""
    path = f"/hooks/{platform}/{connection_id}"
    return f"{path}/{repo_id}" if repo_id else path


def hook_url(public_url: str, platform: str, connection_id: str, repo_id: str = "") -> str:
    return f"{public_url}{hook_path(platform, connection_id, repo_id)}"


def reason_unreachable(public_url: str, platform_url: str) -> str | None:
    """Why the platform cannot send webhooks to this service, as far as their addresses tell."""
    host, platform_host = _host(public_url), _host(platform_url)
    if is_loopback(host):
        is_reachable = is_loopback(platform_host)
    else:
        is_public = platform_host in _PUBLIC_PLATFORMS or platform_host.endswith(_PUBLIC_SUFFIXES)
        is_reachable = not (_is_private(host) and is_public)
    if is_reachable:
        return None
    return (
        f"{platform_host} cannot reach this service at {public_url}; set AGENTJOBS_PUBLIC_URL to an"
        " address that it can reach."
    )


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def _is_private(host: str) -> bool:
    """Whether it is an address that is not reachable from the internet, or a name without a dot."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host
