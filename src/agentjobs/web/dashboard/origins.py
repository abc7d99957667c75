"""Whether a request that changes something was made by one of our own pages.

Refuses to know sessions: the token of a form is compared elsewhere.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import Request

from agentjobs.problems import Problem
from agentjobs.settings import Settings, is_loopback
from agentjobs.web.access_log import ClientAddresses
from agentjobs.web.dashboard.cookies import is_https

# A proxy that sends one of these stands between the browser and us.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def check_origin(request: Request, settings: Settings) -> None:
    """A browser says where a form stood; what is no browser need not be protected from itself."""
    origin = request.headers.get("origin")
    if origin is not None:
        is_ours = origin in _own_origins(request, settings)
    else:
        is_ours = request.headers.get("sec-fetch-site", "same-origin") in {"same-origin", "none"}
    if not is_ours:
        raise Problem(
            "foreign_origin",
            "This request came from a page of another site, so nothing was changed. Open the "
            "dashboard itself and do it there.",
        )


def check_sign_in_is_safe(request: Request, settings: Settings, addresses: ClientAddresses) -> None:
    """A password or a session must not cross a network in clear.

    Without https everything has to be on this machine: the public address, the name by which the
    browser called us, and the browser itself, also where a proxy of the operator's is between.
    """
    if is_https(settings):
        return
    hosts = (
        urlsplit(settings.effective_public_url).hostname or "",
        _called_host(request),
        # Nobody comes from another machine through a Unix socket.
        addresses.of(request.scope) or "localhost",
    )
    is_here = all(is_loopback(host) for host in hosts)
    if not is_here or _is_forwarded_by_a_stranger(request, settings):
        raise Problem(
            "https_required",
            "Signing in needs https, unless service and browser are on the same machine: put a "
            "proxy with a certificate before the service and set AGENTJOBS_PUBLIC_URL to its "
            "https address.",
        )


def safe_next(text: str) -> str:
    """A place of ours to go to after signing in; the overview for anything else."""
    is_place = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_place and text.isprintable() and "\\" not in text else "/"


def _own_origins(request: Request, settings: Settings) -> set[str]:
    public = urlsplit(settings.effective_public_url)
    own = {f"{public.scheme}://{public.netloc}"}
    if is_loopback(public.hostname or "") and is_loopback(_called_host(request)):
        # localhost and 127.0.0.1 are the same place to whoever types one of them.
        own.add(f"http://{request.headers['host']}")
    return own


def _called_host(request: Request) -> str:
    """Empty for what names no host."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _is_forwarded_by_a_stranger(request: Request, settings: Settings) -> bool:
    """Whose word about where the browser is cannot be taken."""
    if not any(name in request.headers for name in _FORWARDED):
        return False
    return request.client is None or not _is_among(request.client.host, settings.trusted_proxies)


def _is_among(address: str, networks: Sequence[str]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(
        parsed in ipaddress.ip_network(text.strip(), strict=False)
        for text in networks
        if text.strip()
    )
