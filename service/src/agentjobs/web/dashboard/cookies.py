"""The dashboard's cookies: names and security attributes."""

from typing import Literal, NamedTuple, get_args
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from agentjobs_runtime.settings import Settings

SESSION = "session"
BANNER = "banner"
ZONE = "zone"
OPENID = "openid"
DIFF_VIEW = "diff-view"
MERGE_METHOD = "merge-method"

# How long a choice of the viewer is remembered.
CHOICE_SECONDS = 365 * 24 * 3600

_MAX_BANNER_LENGTH = 2_000

# good: the action succeeded; bad: it failed; warn: it was not necessary.
Tone = Literal["good", "bad", "warn"]


class Banner(NamedTuple):
    tone: Tone
    text: str


def is_https(settings: Settings) -> bool:
    return urlsplit(settings.effective_public_url).scheme == "https"


def cookie_name(settings: Settings, what: str) -> str:
    """`__Host-` binds a cookie to this host but requires https. Without https the port is part of
    the name, because cookies of services on other ports would overwrite it."""
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
    """Shows a banner on the page that follows a redirect."""
    # Browsers drop cookies that are too long.
    text = quote(banner.text)[:_MAX_BANNER_LENGTH]
    set_cookie(response, settings, BANNER, f"{banner.tone}.{text}", 60)


def read_banner(request: Request, settings: Settings) -> Banner | None:
    tone, _, text = read_cookie(request, settings, BANNER).partition(".")
    for known in get_args(Tone):
        if tone == known and text:
            return Banner(known, unquote(text))
    return None
