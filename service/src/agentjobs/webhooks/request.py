"""The HTTP request of an attempt: its receiver, parsed from the URL once, and its bytes.

Pure: names are resolved, and addresses checked again, when the receiver is dialled.
"""

import ssl
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

from yarl import URL

from agentjobs.webhooks.failures import Failure, blocked_address, invalid_url
from agentjobs.webhooks.model import Headers
from agentjobs.webhooks.untrusted_http.pool import Origin
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.hosts import host_refusal_reason


class Receiver(NamedTuple):
    """`request_start` is the request line and `headers`, the same for every request.

    With a `refusal` nothing is ever sent there.
    """

    origin: Origin
    allowed: AllowList
    request_start: str
    headers: Headers
    refusal: Failure | None = None


class Request(NamedTuple):
    """`is_malformed`: `data` must not be sent."""

    headers: Headers
    data: bytes
    is_malformed: bool


def parse_receiver(
    text: str, allowed: AllowList, tls: ssl.SSLContext, proxy: URL | None
) -> Receiver:
    try:
        url = URL(text)
    except ValueError as error:
        return _refuse(allowed, invalid_url(str(error)))
    if url.scheme not in {"https", "http"} or not url.raw_host or url.port is None:
        return _refuse(allowed, invalid_url("it begins with neither https:// nor http://"))
    is_tls = url.scheme == "https"
    # Plain http only goes to networks that the operator listed, and never through the proxy.
    origin = Origin(url.raw_host, url.port, *((tls, proxy) if is_tls else (None, None)))
    permitted = allowed if is_tls else allowed.without_public()
    headers = (("Host", url.host_port_subcomponent or ""), *_base_headers())
    request_start = f"POST {url.raw_path_qs} HTTP/1.1\r\n{_format_headers(headers)}"
    return Receiver(origin, permitted, request_start, headers, _check_host(origin, permitted))


def build_request(receiver: Receiver, headers: Mapping[str, str], body: bytes) -> Request:
    """`headers` must not repeat those of the receiver."""
    added = (*headers.items(), ("Content-Length", str(len(body))))
    all_headers = receiver.headers + added
    head = f"{receiver.request_start}{_format_headers(added)}\r\n"
    # A line break inside a value would inject a header or a request.
    line_count = len(all_headers) + 2
    is_malformed = head.count("\n") != line_count or head.count("\r") != line_count or "\0" in head
    return Request(all_headers, head.encode("utf-8", "replace") + body, is_malformed)


@cache
def _base_headers() -> Headers:
    return (
        ("User-Agent", f"agentjobs/{version('agentjobs')}"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "identity"),
    )


def _format_headers(headers: Headers) -> str:
    # Runs thousands of times a second: a list is faster than a generator.
    return "".join([f"{name}: {value}\r\n" for name, value in headers])


def _refuse(allowed: AllowList, refusal: Failure) -> Receiver:
    return Receiver(Origin("", 0, None), allowed, "", _base_headers(), refusal)


def _check_host(origin: Origin, allowed: AllowList) -> Failure | None:
    reason = host_refusal_reason(origin.host, allowed)
    if reason is None:
        return None
    message = f"{reason}; {allowed.setting} lists what may be reached"
    return blocked_address(message, is_tls=origin.tls is not None)
