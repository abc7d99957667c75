"""Heads of HTTP/1.1 messages as a proxy sees them: taken apart, and put together for the next hop.

Pure, and strict: what a proxy cannot understand with certainty it does not pass on.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from agentjobs.outbound.guard.host_patterns import bracket_ipv6, normalize_host, split_port

END = b"\r\n\r\n"
# They are about one connection, and a proxy has two.
_HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "upgrade"),
    }
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9]{2})( [\t\x20-\x7e\x80-\xff]*)?")

Headers = tuple[tuple[str, str], ...]


class HeadError(ValueError):
    """The message says what is wrong, in words for the client."""


class ProxyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is empty for CONNECT, which asks for a tunnel and not for a page."""

    method: str
    host: str
    port: int
    path: str
    version: str
    headers: Headers

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def onward(self) -> bytes:
        """For the server itself, which is asked to close the connection when it has answered."""
        default_port = 80
        port = "" if self.port == default_port else f":{self.port}"
        kept = (pair for pair in _kept(self.headers) if pair[0].lower() != "host")
        lines = (("Host", bracket_ipv6(self.host) + port), *kept, ("Connection", "close"))
        return _written(f"{self.method} {self.path} {self.version}", lines)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    status_line: str
    headers: Headers

    @property
    def is_interim(self) -> bool:
        """More will follow, as after `100 Continue`."""
        return self.status < 200

    def onward(self) -> bytes:
        """For the client; one connection carries one answer."""
        last = () if self.is_interim else (("Connection", "close"),)
        return _written(self.status_line, (*_kept(self.headers), *last))


def parse_request(head: bytes) -> ProxyRequest:
    first, headers = _taken_apart(head)
    words = first.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise HeadError("this is not an HTTP request")
    method, target, version = words
    if version not in {"HTTP/1.1", "HTTP/1.0"}:
        raise HeadError("only HTTP/1.1 is understood here")
    authority, default_port, path = _tunnel(target) if method == "CONNECT" else _page(target)
    host, port = _authority(authority, default_port)
    return ProxyRequest(
        method=method, host=host, port=port, path=path, version=version, headers=headers
    )


def parse_answer(head: bytes) -> Answer:
    first, headers = _taken_apart(head)
    match = _STATUS.fullmatch(first)
    if match is None:
        raise HeadError("the server's answer is not HTTP")
    return Answer(status=int(match[1]), status_line=first, headers=headers)


def _taken_apart(head: bytes) -> tuple[str, Headers]:
    first, *lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    return first, tuple(_header(line) for line in lines)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise HeadError("a header line is not understood")
    return name, value.strip(" \t")


def _authority(text: str, default_port: int | None) -> tuple[str, int]:
    try:
        name, port = split_port(text)
    except ValueError:
        raise HeadError("the port is not a number from 1 to 65535") from None
    host, port = normalize_host(name), port or default_port
    if host is None or port is None:
        raise HeadError("the host is not understood: write HOST:PORT")
    return host, port


def _tunnel(target: str) -> tuple[str, int | None, str]:
    return target, None, ""


def _page(target: str) -> tuple[str, int | None, str]:
    """Authority, port and path; a user's name before the host is not meant for the server."""
    try:
        parts = urlsplit(target)
    except ValueError:
        raise HeadError("the address is not understood") from None
    if parts.scheme != "http" or not parts.netloc:
        raise HeadError("this is a proxy: ask it for a whole http:// address, or use CONNECT")
    start = target.index("://") + 3 + len(parts.netloc)
    path = target[start:].partition("#")[0]
    return parts.netloc.rpartition("@")[2], 80, path if path.startswith("/") else f"/{path}"


def _kept(headers: Headers) -> Iterable[tuple[str, str]]:
    """Without what is about one connection, also what `Connection` names as such."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == "connection"
        for word in value.split(",")
    }
    dropped = _HOP_BY_HOP | (named - {"host", "content-length", "transfer-encoding"})
    return (pair for pair in headers if pair[0].lower() not in dropped)


def _written(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = (first, *(f"{name}: {value}" for name, value in headers), "", "")
    return "\r\n".join(lines).encode("latin-1")
