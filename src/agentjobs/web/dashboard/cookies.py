"""The dashboard's cookies: names, and how scripts, other sites and listeners are kept out."""

from typing import Literal, NamedTuple, get_args
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from agentjobs.settings import Settings

SESSION = "session"
BANNER = "said"
ZONE = "zone"
OPENID = "openid"

_MOST_SAID_LENGTH = 2_000

# How a banner looks: what was asked for happened, failed, or was not necessary.
Tone = Literal["good", "bad", "warn"]


class Banner(NamedTuple):
    tone: Tone
    text: str


def is_https(settings: Settings) -> bool:
    return urlsplit(settings.effective_public_url).scheme == "https"


def cookie_name(settings: Settings, what: str) -> str:
    """With https a browser takes it from nobody but this very host. Without, cookies do not know
    ports: two services on one machine must not overwrite each other's."""
    if is_https(settings):
        return f"__Host-agentjobs-{what}"
    return f"agentjobs-{what}-{urlsplit(settings.effective_public_url).port or 80}"


def read_cookie(request: Request, settings: Settings, what: str) -> str:
    return request.cookies.get(cookie_name(settings, what), "")


def set_cookie(
    response: Response, settings: Settings, what: str, value: str, max_age_seconds: int
) -> None:
    response.set_cookie(
        cookie_name(settings, what),
        value,
        max_age=max_age_seconds,
        path="/",
        secure=is_https(settings),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(response: Response, settings: Settings, what: str) -> None:
    set_cookie(response, settings, what, "", 0)


def set_banner(response: Response, settings: Settings, banner: Banner) -> None:
    """A sentence for the page that follows a redirect."""
    # Browsers drop a cookie that is too long as a whole.
    text = quote(banner.text)[:_MOST_SAID_LENGTH]
    set_cookie(response, settings, BANNER, f"{banner.tone}.{text}", 60)


def read_banner(request: Request, settings: Settings) -> Banner | None:
    tone, _, text = read_cookie(request, settings, BANNER).partition(".")
    for known in get_args(Tone):
        if tone == known and text:
            return Banner(known, unquote(text))
    return None
