"""Responses of a platform's API: decoding successful ones, turning others into errors.

Pure functions. Knows what GitHub, GitLab, Gitea and Jira have in common; retries are decided
elsewhere.
"""

import math
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import islice
from typing import Any, Literal, TypeVar, get_origin

import msgspec

from agentjobs.platforms.protocol import PlatformError, PlatformFault, RateLimit
from agentjobs.platforms.text import one_line

# The wait after a rate limit that names no time: GitHub asks for at least a minute.
UNNAMED_LIMIT_SECONDS = 60.0
_MAX_PERIOD_SECONDS = 86_400.0
# A larger number of requests or seconds is a mistake.
_MAX_HEADER_NUMBER = 1e12
# A reset is a time since the epoch; a smaller number must be in seconds from now.
_MIN_EPOCH_SECONDS = 1_000_000_000
# Where platforms put their messages, the more specific ones last.
_MESSAGE_FIELDS = ("message", "error", "error_description", "errors", "errorMessages")
_MAX_MESSAGES = 8
# A longer body has no message for people, and decoding it would block the whole process.
MAX_MESSAGE_BYTES = 64 * 1024
Relation = Literal["next", "prev", "last"]
Shape = TypeVar("Shape")
_LIMITED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
_REFUSALS: Mapping[int, PlatformFault] = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "denied",
    HTTPStatus.NOT_FOUND: "gone",
    HTTPStatus.GONE: "gone",
    HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS: "gone",
}


class ApiError(PlatformError):
    """`status` is 0 if there was no response.

    `is_unprocessed`: the request certainly changed nothing. `retry_after_seconds` is what the
    platform asks for. `invalid_fields` are the fields of the request that the platform does not
    accept.
    """

    def __init__(
        self,
        message: str,
        fault: PlatformFault,
        *,
        status: int = 0,
        is_unprocessed: bool = True,
        retry_after_seconds: float = 0.0,
        invalid_fields: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(message, fault)
        self.status = status
        self.is_unprocessed = is_unprocessed
        self.retry_after_seconds = retry_after_seconds
        self.invalid_fields = invalid_fields

    @property
    def summary(self) -> str:
        """The message without its advice, for logs of retries."""
        return str(self).partition("; try again")[0]

    @property
    def is_rate_limit(self) -> bool:
        return self.fault == "away" and self.status in _LIMITED


class Response(msgspec.Struct, frozen=True):
    """Names of `headers` are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def error_from(platform: str, response: Response, needs: str, now: float) -> ApiError:
    """The error for a response that is not a success; `now` is in seconds since the epoch."""
    status = response.status
    if is_redirect(status):
        message = f"{platform} says that the resource has moved."
        return ApiError(message, "refused", status=status)
    detail = message_in(response)
    if _is_rate_limit(response, detail):
        return _rate_limit(platform, response, now)
    if status >= 500 or status == HTTPStatus.REQUEST_TIMEOUT:
        return _server_error(platform, response, now)
    if is_web_page(response):
        return not_an_api(platform, status)
    return _refusal(platform, response, detail, needs)


def message_in(response: Response) -> str:
    """The platform's own message in parentheses, or an empty string."""
    value = _error_body(response)
    fields = [value[name] for name in _MESSAGE_FIELDS if name in value]
    messages: dict[str, None] = {}
    for message in islice(_strings(fields), 20 * _MAX_MESSAGES):
        messages[one_line(message)] = None
        if len(messages) == _MAX_MESSAGES:
            break
    line = one_line("; ".join(filter(None, messages))).rstrip(".")
    return f" ({line})" if line else ""


def _error_body(response: Response) -> dict[str, Any]:
    """Empty if it is not an object."""
    if len(response.body) > MAX_MESSAGE_BYTES:
        return {}
    try:
        value = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _invalid_fields(response: Response) -> frozenset[str]:
    """The fields in `{"errors": [{"field": "head", "code": "invalid"}]}`, as GitHub sends them."""
    errors = _error_body(response).get("errors")
    if not isinstance(errors, list):
        return frozenset()
    faults = [fault for fault in errors if isinstance(fault, dict)]
    return frozenset(str(fault.get("field")) for fault in faults if fault.get("code") == "invalid")


def is_redirect(status: int) -> bool:
    return status in {301, 302, 303, 307, 308}


def link_url(response: Response, relation: Relation) -> str | None:
    """The URL in `Link: <…>; rel="next"`."""
    for link in response.headers.get("Link", "").split(","):
        address, _, relations = link.partition(";")
        if f'rel="{relation}"' in relations or f"rel={relation}" in relations:
            return address.strip().removeprefix("<").removesuffix(">")
    return None


def decode_as(platform: str, response: Response, shape: type[Shape]) -> Shape:
    """Decode a response to the given type. Raises PlatformError."""
    # Some platforms return null or nothing for an empty list.
    empty = b"[]" if get_origin(shape) is list else b"null"
    content = response.body.strip()
    try:
        return msgspec.json.decode(empty if content in {b"", b"null"} else content, type=shape)
    except msgspec.ValidationError as error:
        reason = one_line(str(error))
        message = f"{platform} returned an unexpected response ({reason}); check its address and"
        raise PlatformError(f"{message} version.", "unusable") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise not_an_api(platform, response.status) from None


def _refusal(platform: str, response: Response, detail: str, needs: str) -> ApiError:
    status = response.status
    fault = _REFUSALS.get(status, "refused")
    permission = f"; the connection needs the permission “{needs}”" if needs else ""
    messages = {
        "unauthorized": f"does not accept the credential{detail}; replace it",
        "denied": f"denies access{detail}{permission}",
        "gone": f"did not find it, or this connection cannot see it{detail}{permission}",
        "refused": f"refused the request{detail or f' ({status})'}",
    }
    return ApiError(
        f"{platform} {messages[fault]}.",
        fault,
        status=status,
        invalid_fields=_invalid_fields(response),
    )


def _rate_limit(platform: str, response: Response, now: float) -> ApiError:
    wait = _requested_wait(response, now)
    if wait is None:
        wait = UNNAMED_LIMIT_SECONDS
    return ApiError(
        f"{platform} is busy (rate limit); try again in {_duration(wait)}.",
        "away",
        status=response.status,
        retry_after_seconds=wait,
    )


def _server_error(platform: str, response: Response, now: float) -> ApiError:
    return ApiError(
        f"{platform} has a server error ({response.status}); try again later.",
        "away",
        status=response.status,
        # Other statuses may come from a proxy that timed out while the request is still running.
        is_unprocessed=response.status == HTTPStatus.SERVICE_UNAVAILABLE,
        retry_after_seconds=_retry_after(response, now) or 0.0,
    )


def not_an_api(platform: str, status: int) -> ApiError:
    message = f"{platform} returned a web page instead of an API response; check the address."
    # The request may have been processed all the same.
    return ApiError(message, "unusable", status=status, is_unprocessed=False)


def is_web_page(response: Response) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in {"text/html", "application/xhtml+xml"} or response.body.lstrip()[:1] == b"<"


def _is_rate_limit(response: Response, detail: str) -> bool:
    if response.status != HTTPStatus.FORBIDDEN:
        return response.status == HTTPStatus.TOO_MANY_REQUESTS
    has_none_left = response.headers.get("x-ratelimit-remaining") == "0"
    return has_none_left or "Retry-After" in response.headers or "rate limit" in detail.lower()


def _requested_wait(response: Response, now: float) -> float | None:
    """Seconds from now; None if the platform names no time."""
    retry_after = _retry_after(response, now)
    if retry_after is not None:
        return retry_after
    for family in ("x-ratelimit", "RateLimit"):
        reset = _number(response.headers.get(f"{family}-reset", ""))
        # The header is on every response; it counts once nothing is left until the reset.
        if reset is not None and response.headers.get(f"{family}-remaining", "0") == "0":
            return max(0.0, reset - now if reset >= _MIN_EPOCH_SECONDS else reset)
    return None


def parse_rate_limit(response: Response, now: float) -> RateLimit | None:
    """What the headers of any response say about the rate limit; None if they say nothing."""
    for family in ("x-ratelimit", "RateLimit"):
        names = ("limit", "remaining", "reset")
        values = [_number(response.headers.get(f"{family}-{name}", "")) for name in names]
        limit, remaining, reset = values
        if limit is not None and remaining is not None and reset is not None:
            resets_at = reset if reset >= _MIN_EPOCH_SECONDS else now + reset
            return RateLimit(int(limit), int(remaining), min(resets_at, now + _MAX_PERIOD_SECONDS))
    return None


def _retry_after(response: Response, now: float) -> float | None:
    value = response.headers.get("Retry-After", "").strip()
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < _MAX_HEADER_NUMBER else None


def _duration(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds <= 120 else f"{math.ceil(seconds / 60)} minutes"


def _strings(value: Any, depth: int = 4) -> Iterator[str]:
    """All strings of a nested value; {"base": ["is taken"]} yields "base is taken"."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth:
        for part in value:
            yield from _strings(part, depth - 1)
    elif isinstance(value, dict) and depth:
        for key, part in value.items():
            if isinstance(part, list):
                yield from (f"{key} {text}" for text in _strings(part, depth - 1))
            else:
                yield from _strings(part, depth - 1)
