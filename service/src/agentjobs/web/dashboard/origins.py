"""Checks where a request comes from: its origin, and whether it is safe to sign in over it.

Knows nothing about sessions; auth_gate compares form tokens.
"""

from urllib.parse import urlsplit

from starlette.requests import Request

from agentjobs.web.client_addresses import ClientAddresses
from agentjobs.web.dashboard.cookies import is_https
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, is_loopback

# A proxy between the browser and the service sends one of these.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def check_origin(request: Request, settings: Settings) -> None:
    """Rejects forms sent from other sites."""
    if not has_own_origin(request, settings):
        raise Problem(
            "foreign_origin",
            "This request came from another site, so nothing was changed. Open the dashboard and "
            "try again there.",
        )


def has_own_origin(request: Request, settings: Settings) -> bool:
    """False for a page of another site, or of another name of this address (DNS rebinding).

    Only browsers send these headers.
    """
    origin = request.headers.get("origin")
    if origin is not None:
        return origin in _own_origins(request, settings)
    return request.headers.get("sec-fetch-site", "same-origin") in {"same-origin", "none"}


def check_sign_in_is_safe(request: Request, settings: Settings, addresses: ClientAddresses) -> None:
    """Passwords and sessions must not cross a network unencrypted.

    Without https, the public URL, the requested host and the browser must all be on this machine,
    even behind a trusted proxy.
    """
    if is_https(settings):
        return
    hosts = (
        urlsplit(settings.effective_public_url).hostname or "",
        _requested_host(request),
        # A Unix socket is always local.
        addresses.of(request.scope) or "localhost",
    )
    is_local = all(is_loopback(host) for host in hosts)
    if not is_local or _is_from_untrusted_proxy(request, addresses):
        raise Problem(
            "https_required",
            "Signing in requires https unless the service and the browser are on the same machine. "
            "Put a TLS proxy in front of the service and set AGENTJOBS_PUBLIC_URL to its https "
            "address.",
        )


def safe_next(text: str) -> str:
    """A path of the dashboard to open after signing in; `/` for anything else."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_path and text.isprintable() and "\\" not in text else "/"


def _own_origins(request: Request, settings: Settings) -> set[str]:
    public = urlsplit(settings.effective_public_url)
    origins = {f"{public.scheme}://{public.netloc}"}
    if is_loopback(public.hostname or "") and is_loopback(_requested_host(request)):
        # localhost and 127.0.0.1 are interchangeable.
        origins.add(f"http://{request.headers['host']}")
    return origins


def _requested_host(request: Request) -> str:
    """Empty if the Host header is missing or malformed."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _is_from_untrusted_proxy(request: Request, addresses: ClientAddresses) -> bool:
    """Then the browser's address is unknown."""
    if not any(name in request.headers for name in _FORWARDED):
        return False
    return request.client is None or not addresses.is_trusted(request.client.host)
