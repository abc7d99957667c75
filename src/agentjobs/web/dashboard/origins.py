"""Whether a request that changes something was made by one of our own pages.

Refuses to know sessions: the token of a form is compared elsewhere.
"""

from urllib.parse import urlsplit

from starlette.requests import Request

from agentjobs.problems import Problem
from agentjobs.settings import Settings, is_loopback
from agentjobs.web.dashboard.cookies import is_https


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


def check_sign_in_is_safe(request: Request, settings: Settings) -> None:
    """A password or a session must not cross a network in clear."""
    if is_https(settings):
        return
    host = urlsplit(settings.effective_public_url).hostname or ""
    peer = request.client.host if request.client else "127.0.0.1"
    if not (is_loopback(host) and is_loopback(peer)):
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
    if is_loopback(public.hostname or ""):
        # localhost and 127.0.0.1 are the same place to whoever types one of them.
        host = request.headers.get("host", "")
        if is_loopback(urlsplit(f"//{host}").hostname or ""):
            own.add(f"http://{host}")
    return own
