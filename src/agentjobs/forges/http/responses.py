"""What an answer of a platform's API means that is no success: which fault, and for whom to mend.

Pure. Knows the habits that GitHub, GitLab and Gitea share; asking again is not decided here.
"""

import math
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import islice
from typing import Any, Literal

import msgspec

from agentjobs.forges.protocol import ForgeError, ForgeFault
from agentjobs.forges.text import shown

# Of a secondary limit without a word about when: GitHub asks for a minute at least.
SECONDARY_LIMIT_SECONDS = 60.0
# A reset is a moment since the epoch; a smaller number can only be a number of seconds from now.
_EARLIEST_MOMENT = 1_000_000_000
# Where a platform puts its words, the more telling last.
_WORDS = ("message", "error", "error_description", "errors", "errorMessages")
_MOST_WORDS = 8
# What is longer holds no words for anybody, and reading it holds up everything else: a thread would
# not help, for nothing else runs while it decodes.
WORDS_BYTES = 64 * 1024
Relation = Literal["next", "prev", "last"]
_REFUSALS: Mapping[int, ForgeFault] = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "denied",
    HTTPStatus.NOT_FOUND: "gone",
    HTTPStatus.GONE: "gone",
    HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS: "gone",
}


class ApiError(ForgeError):
    """`status` is 0 where no answer came.

    `is_undone`: certainly nothing was changed. `wait_seconds`: what the platform asks for.
    `trouble` is the fault in a few words, for those who wait.
    """

    def __init__(
        self,
        message: str,
        fault: ForgeFault,
        *,
        status: int = 0,
        is_undone: bool = True,
        wait_seconds: float = 0.0,
        trouble: str = "",
    ) -> None:
        super().__init__(message, fault)
        self.status = status
        self.is_undone = is_undone
        self.wait_seconds = wait_seconds
        self.trouble = trouble or message

    @property
    def has_moved(self) -> bool:
        """It lies elsewhere now, and what was asked is asked of no other place by itself."""
        return is_redirect(self.status)


class Answer(msgspec.Struct, frozen=True):
    """`headers` finds a name however it is written."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def fault_of(platform: str, answer: Answer, needs: str, now: float) -> ApiError:
    """Of an answer that is no success; `now` in seconds since the epoch."""
    status = answer.status
    if is_redirect(status):
        words = f"{platform} says that it has moved elsewhere."
        return ApiError(words, "refused", status=status)
    said = said_in(answer)
    if _is_rate_limit(answer, said):
        return _rate_limit(platform, answer, now)
    if status >= 500 or status == HTTPStatus.REQUEST_TIMEOUT:
        return _out_of_order(platform, answer, now)
    if _is_web_page(answer):
        return no_api(platform, status)
    return _refusal(platform, status, said, needs)


def said_in(answer: Answer) -> str:
    """The platform's own words in parentheses, or nothing."""
    if len(answer.body) > WORDS_BYTES:
        return ""
    try:
        value = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    told = (value[key] for key in _WORDS if key in value) if isinstance(value, dict) else ()
    found: dict[str, None] = {}
    for words in islice(_strings(list(told)), 20 * _MOST_WORDS):
        found[shown(words)] = None
        if len(found) == _MOST_WORDS:
            break
    line = shown("; ".join(filter(None, found))).rstrip(".")
    return f" ({line})" if line else ""


def is_redirect(status: int) -> bool:
    return status in {301, 302, 303, 307, 308}


def linked(answer: Answer, relation: Relation) -> str | None:
    """The address in `Link: <…>; rel="next"`."""
    for link in answer.headers.get("Link", "").split(","):
        address, _, relations = link.partition(";")
        if f'rel="{relation}"' in relations or f"rel={relation}" in relations:
            return address.strip().removeprefix("<").removesuffix(">")
    return None


def _refusal(platform: str, status: int, said: str, needs: str) -> ApiError:
    fault = _REFUSALS.get(status, "refused")
    needed = f"; the connection needs the permission “{needs}”" if needs else ""
    words = {
        "unauthorized": f"does not accept the credential{said}; give the connection a new one",
        "denied": f"does not permit it{said}{needed}",
        "gone": f"has no such thing, or does not show it to this connection{said}{needed}",
        "refused": f"refuses it{said or f' ({status})'}",
    }
    return ApiError(f"{platform} {words[fault]}.", fault, status=status)


def _rate_limit(platform: str, answer: Answer, now: float) -> ApiError:
    wait = _asked_wait(answer, now)
    if wait is None:
        wait = SECONDARY_LIMIT_SECONDS if answer.status == HTTPStatus.FORBIDDEN else 0.0
    trouble = f"{platform} is busy (rate limit)"
    when = f"in {_duration(wait)}" if wait else "later"
    return ApiError(
        f"{trouble}; try again {when}.",
        "away",
        status=answer.status,
        wait_seconds=wait,
        trouble=trouble,
    )


def _out_of_order(platform: str, answer: Answer, now: float) -> ApiError:
    trouble = f"{platform} is out of order ({answer.status})"
    return ApiError(
        f"{trouble}; try again later.",
        "away",
        status=answer.status,
        # Other statuses may come from a proxy that timed out while the request is still running.
        is_undone=answer.status == HTTPStatus.SERVICE_UNAVAILABLE,
        wait_seconds=_retry_after(answer, now) or 0.0,
        trouble=trouble,
    )


def no_api(platform: str, status: int) -> ApiError:
    words = f"{platform} answered with a web page, not with its API; check the address."
    # It may have done what was asked and only be unable to say so.
    return ApiError(words, "refused", status=status, is_undone=False)


def _is_web_page(answer: Answer) -> bool:
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in {"text/html", "application/xhtml+xml"} or answer.body.lstrip()[:1] == b"<"


def _is_rate_limit(answer: Answer, said: str) -> bool:
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    if answer.status != HTTPStatus.FORBIDDEN:
        return False
    has_none_left = answer.headers.get("x-ratelimit-remaining") == "0"
    return has_none_left or "Retry-After" in answer.headers or "rate limit" in said.lower()


def _asked_wait(answer: Answer, now: float) -> float | None:
    """Seconds from now; None: nothing was said."""
    told = _retry_after(answer, now)
    if told is not None:
        return told
    for family in ("x-ratelimit", "RateLimit"):
        moment = _number(answer.headers.get(f"{family}-reset", ""))
        # On every answer; it means something where nothing is left until then.
        if moment is not None and answer.headers.get(f"{family}-remaining", "0") == "0":
            return max(0.0, moment - now if moment >= _EARLIEST_MOMENT else moment)
    return None


def _retry_after(answer: Answer, now: float) -> float | None:
    told = answer.headers.get("Retry-After", "").strip()
    seconds = _number(told)
    if seconds is not None or not told:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _duration(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds <= 120 else f"{math.ceil(seconds / 60)} minutes"


def _strings(value: Any, depth: int = 4) -> Iterator[str]:
    """All that is said anywhere in it, as {"base": ["is taken"]} says it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth:
        for part in value:
            yield from _strings(part, depth - 1)
    elif isinstance(value, dict) and depth:
        for key, part in value.items():
            if isinstance(part, list):
                yield from (f"{key} {words}" for words in _strings(part, depth - 1))
            else:
                yield from _strings(part, depth - 1)
