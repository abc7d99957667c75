"""One request as data, and how its response is parsed. Does no I/O."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import httpx
import msgspec

from agentjobs_client.api_errors import BY_CODE, NotSupported
from agentjobs_client.errors import ApiError, ClientError, UnexpectedAnswer
from agentjobs_client.models.base import Model
from agentjobs_client.version import __version__

T = TypeVar("T")
M = TypeVar("M", bound=Model)

# What reading hostile or damaged JSON raises.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_MAX_SHOWN = 200
# The service sends none.
_WEB_PAGE = "text/html"
# From `check_success` to the program, through `_send_once`, `_send` and a method of a client.
_CALLER_LEVEL = 5


class Call(msgspec.Struct, Generic[T], frozen=True):
    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    params: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    content: bytes | None = None
    # How long the service may wait before it responds.
    wait_seconds: float = 0.0
    # A limit on the whole call, if it is lower than the client's.
    limit_seconds: float = math.inf


class Page(NamedTuple, Generic[T]):
    items: list[T]
    next_cursor: str | None
    warnings: list[str]


Listing = Callable[[str | None], Call[Page[T]]]


def build_request(
    http: httpx.Client | httpx.AsyncClient, call: Call[Any], timeout: httpx.Timeout
) -> httpx.Request:
    try:
        return http.build_request(
            call.method,
            call.path,
            params=dict(call.params or {}),
            headers=dict(call.headers or {}),
            content=call.content,
            timeout=timeout,
        )
    except (UnicodeError, httpx.InvalidURL) as error:
        raise ClientError(f"an argument of the call is not valid text: {error}") from None


def find_timeout(call: Call[Any], seconds: float) -> httpx.Timeout:
    return httpx.Timeout(min(seconds + call.wait_seconds, call.limit_seconds))


def encode_body(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeError as error:
        raise ClientError(f"the request contains text that is not valid: {error}") from None


def read_text(response: httpx.Response) -> str:
    return read_bytes(response).decode("utf-8", "replace")


def read_bytes(response: httpx.Response) -> bytes:
    if _media_type(response) == _WEB_PAGE:
        raise unexpected(response, "")
    return response.content


def reader(kind: type[M]) -> Callable[[httpx.Response], M]:
    return lambda response: _read(response, kind.from_document)


def list_reader(kind: type[M], name: str) -> Callable[[httpx.Response], list[M]]:
    return lambda response: page_reader(kind, name)(response).items


def page_reader(kind: type[M], name: str) -> Callable[[httpx.Response], Page[M]]:
    def build(document: Any) -> Page[M]:
        fields = msgspec.convert(document, dict[str, Any])
        items = msgspec.convert(fields.get(name), list[Any])
        cursor = msgspec.convert(fields.get("next_cursor"), str | None)
        ignored = msgspec.convert(fields.get("warnings", []), list[str])
        return Page([kind.from_document(item) for item in items], cursor, ignored)

    return lambda response: _check_filters(response, _read(response, build))


def _check_filters(response: httpx.Response, page: Page[M]) -> Page[M]:
    """A listing that ignores a filter contains items that the caller did not ask for."""
    for warning in page.warnings:
        if any(f"`{name}` was ignored" in warning for name in response.request.url.params):
            message = f"{warning} The service is older than this client ({__version__})."
            raise NotSupported(response.status_code, "filter_ignored", message)
    return page


def _read(response: httpx.Response, build: Callable[[Any], T]) -> T:
    try:
        return build(msgspec.json.decode(response.content))
    except msgspec.ValidationError as error:
        raise UnexpectedAnswer(
            f"{_where(response)} returned an unexpected document: {error}; upgrade this client "
            f"({__version__}) if the service is newer",
            status=response.status_code,
        ) from None
    except _UNREADABLE as error:
        raise unexpected(response, str(error)) from None


def check_progress(cursor: str | None, page: Page[Any]) -> str | None:
    """The next cursor. The same one again would be a listing without end."""
    if page.next_cursor == cursor:
        raise UnexpectedAnswer("the service returned the same page of a listing again")
    return page.next_cursor


def check_success(response: httpx.Response) -> httpx.Response:
    """The response, whose body must have been read. Raises for an error response."""
    if not response.is_success:
        raise error_from(response)
    if "Deprecation" in response.headers:
        removal = response.headers.get("Sunset", "a date to be announced")
        link = response.links.get("deprecation", {}).get("url", "the service's documentation")
        message = f"{_where(response)} is deprecated and will be removed on {removal}; see {link}"
        warnings.warn(message, DeprecationWarning, stacklevel=_CALLER_LEVEL)
    return response


def check_event_stream(response: httpx.Response) -> None:
    """Any other content would be read as a log without end."""
    if _media_type(response) != "text/event-stream":
        raise unexpected(response, "it is not an event stream")


class _ErrorBody(msgspec.Struct):
    code: str
    message: str
    request_id: str | None = None
    details: Any = None


class _Envelope(msgspec.Struct):
    error: _ErrorBody


def error_from(response: httpx.Response) -> ClientError:
    """The exception for an unsuccessful response, whose body must have been read."""
    try:
        body = msgspec.json.decode(response.content, type=_Envelope).error
    except _UNREADABLE:
        return unexpected(response, "")
    kind = BY_CODE.get(body.code, ApiError)
    message = body.message
    if issubclass(kind, NotSupported):
        url = response.request.url
        message = (
            f"{url.scheme}://{url.netloc.decode()} does not have {response.request.method} "
            f"{url.path}; the service is older than this client ({__version__}), or the address "
            "is wrong."
        )
    return kind(
        response.status_code,
        body.code,
        message,
        request_id=body.request_id or response.headers.get("X-Request-Id"),
        details=body.details,
        retry_after_seconds=_retry_after_seconds(response),
    )


def unexpected(response: httpx.Response, reason: str) -> UnexpectedAnswer:
    """The exception for a response that is not the service's."""
    where = _where(response)
    check = "check that the address is the service's and ends in /v1"
    if response.has_redirect_location:
        target = response.headers["Location"][:_MAX_SHOWN]
        message = f"{where} was redirected to {target}; use the address of the service itself"
    elif _media_type(response) == _WEB_PAGE:
        message = (
            f"{where} returned a web page with status {response.status_code}, probably from a "
            f"proxy or a sign-in page; {check}"
        )
    elif reason:
        message = f"{where} returned an unexpected body: {reason}; {check}"
    else:
        message = f"{where} returned {response.status_code} in an unknown format; {check}"
    return UnexpectedAnswer(
        message,
        status=response.status_code,
        retry_after_seconds=_retry_after_seconds(response),
    )


def _media_type(response: httpx.Response) -> str:
    media_type: str = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return media_type


def _where(response: httpx.Response) -> str:
    return f"{response.request.method} {response.url}"


def _retry_after_seconds(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
