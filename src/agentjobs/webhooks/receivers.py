"""A receiver as its URL names it: judged once, with all of a request that is always the same.

Pure: names are looked up, and addresses judged again, where they are dialled.
"""

import ssl
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

from yarl import URL

from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.outbound.guard.hosts import why_host_refused
from agentjobs.outbound.untrusted_http.dial import Origin
from agentjobs.webhooks.failures import Failure, blocked, invalid
from agentjobs.webhooks.model import Headers


class Receiver(NamedTuple):
    """`opening` is what every request begins with: its line and these headers. A `refusal` is
    for ever."""

    origin: Origin
    allowed: Allowed
    opening: str
    headers: Headers
    refusal: Failure | None = None


class Request(NamedTuple):
    """Of its `data` nothing may be sent if it `is_broken`."""

    headers: Headers
    data: bytes
    is_broken: bool


def receiver(text: str, allowed: Allowed, tls: ssl.SSLContext, proxy: URL | None) -> Receiver:
    try:
        url = URL(text)
    except ValueError as error:
        return _nobody(allowed, invalid(str(error)))
    if url.scheme not in {"https", "http"} or not url.raw_host or url.port is None:
        return _nobody(allowed, invalid("it begins with neither https:// nor http://"))
    is_tls = url.scheme == "https"
    # What http may reach is the operator's own, and not behind a proxy.
    origin = Origin(url.raw_host, url.port, *((tls, proxy) if is_tls else (None, None)))
    reach = allowed if is_tls else allowed.alone()
    headers = (("Host", url.host_port_subcomponent or ""), *_base_headers())
    opening = f"POST {url.raw_path_qs} HTTP/1.1\r\n{_lines(headers)}"
    return Receiver(origin, reach, opening, headers, _refusal(origin, reach))


def request_to(receiver: Receiver, headers: Mapping[str, str], body: bytes) -> Request:
    """`headers` are those that the receiver's own do not have."""
    added = (*headers.items(), ("Content-Length", str(len(body))))
    every = receiver.headers + added
    head = f"{receiver.opening}{_lines(added)}\r\n"
    # A value with a line of its own in it would be a header, or a request, that nobody made.
    ends = len(every) + 2
    is_broken = head.count("\n") != ends or head.count("\r") != ends or "\0" in head
    return Request(every, head.encode("utf-8", "replace") + body, is_broken)


@cache
def _base_headers() -> Headers:
    return (
        ("User-Agent", f"agentjobs/{version('agentjobs')}"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "identity"),
    )


def _lines(headers: Headers) -> str:
    # By thousands a second: a list is quicker than a generator.
    return "".join([f"{name}: {value}\r\n" for name, value in headers])


def _nobody(allowed: Allowed, refusal: Failure) -> Receiver:
    return Receiver(Origin("", 0, None), allowed, "", _base_headers(), refusal)


def _refusal(origin: Origin, allowed: Allowed) -> Failure | None:
    reason = why_host_refused(origin.host, allowed)
    if reason is None:
        return None
    sentence = f"{reason}; {allowed.setting} lists what may be reached"
    return blocked(sentence, is_tls=origin.tls is not None)
