"""Parses the heads of HTTP/1.1 messages and rewrites them for the next hop of a proxy.

Pure and strict: a proxy must not forward what it cannot parse with certainty.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6, normalize_host, split_port

END = b"\r\n\r\n"
MAX_HEAD_BYTES = 16 * 1024
# They apply to one connection, and a proxy has two.
_HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "upgrade"),
    }
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
_LENGTH = re.compile(r"[0-9]{1,15}")
# More than `parse_request` accepts: some servers read GET without a version, for example.
_REQUEST_LINE = re.compile(r"GET\s|[A-Z]+\s+(/|https?:)|.*(?i:HTTP/)")
_LINE_START = re.compile(rf"({_TOKEN.pattern}(\s{_VALUE.pattern})?)?")
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9]{2})( [\t\x20-\x7e\x80-\xff]*)?")

Headers = tuple[tuple[str, str], ...]


class HeadError(ValueError):
    """The message is sent to the client."""


class ProxyRequest(msgspec.Struct, frozen=True):
    """`path` is empty for CONNECT; `body_bytes` is None for a body in chunks."""

    method: str
    host: str
    port: int
    path: str
    version: str
    headers: Headers
    body_bytes: int | None

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def to_server(self) -> bytes:
        """Asks the server to close the connection after its response."""
        default_port = 80
        port = "" if self.port == default_port else f":{self.port}"
        others = (pair for pair in _end_to_end(self.headers) if pair[0].lower() != "host")
        lines = (("Host", bracket_ipv6(self.host) + port), *others, ("Connection", "close"))
        return _format(f"{self.method} {self.path} {self.version}", lines)


class ResponseHead(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    status_line: str
    headers: Headers

    @property
    def is_interim(self) -> bool:
        """Another response follows, as after `100 Continue`."""
        return self.status < 200

    def to_client(self) -> bytes:
        """One connection carries one response."""
        last = () if self.is_interim else (("Connection", "close"),)
        return _format(self.status_line, (*_end_to_end(self.headers), *last))


def parse_request(head: bytes) -> ProxyRequest:
    """A request to a proxy."""
    request = _parse_request(head)
    authority, default_port, path = (
        _parse_tunnel(request.path) if request.is_tunnel else _parse_url(request.path)
    )
    host, port = _parse_authority(authority, default_port)
    return msgspec.structs.replace(request, host=host, port=port, path=path)


def parse_tunnelled_request(head: bytes, host: str, port: int) -> ProxyRequest:
    """A request to the normalized host of a tunnel; raises HeadError if it names another one."""
    request = _parse_request(head)
    if not request.path.startswith("/"):
        raise HeadError("its HTTP request names a URL instead of a path")
    for value in _values(request.headers, "host"):
        if _parse_authority(value, port)[0] != host:
            raise HeadError(f"its HTTP request names another host: {value[:100]!r}")
    return msgspec.structs.replace(request, host=host, port=port)


def starts_request(data: bytes) -> bool | None:
    """Whether a server might read an HTTP request; None if more data is needed.

    A long text without an end of the line might be one.
    """
    line, is_complete, _ = data.decode("latin-1").lstrip().partition("\n")
    if _REQUEST_LINE.match(line):
        return True
    if is_complete or not _LINE_START.fullmatch(line):
        return False
    return True if len(line) > MAX_HEAD_BYTES else None


def parse_response(head: bytes) -> ResponseHead:
    first, headers = _split(head)
    match = _STATUS.fullmatch(first)
    if match is None:
        raise HeadError("the server's response is not HTTP")
    return ResponseHead(status=int(match[1]), status_line=first, headers=headers)


def _parse_request(head: bytes) -> ProxyRequest:
    """Its path is the whole target; its host is not known yet."""
    first, headers = _split(head)
    parts = first.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
        raise HeadError("this is not an HTTP request")
    method, target, version = parts
    if version not in {"HTTP/1.1", "HTTP/1.0"}:
        raise HeadError("only HTTP/1.1 is supported")
    body_bytes = _parse_body_bytes(headers)
    return ProxyRequest(method, "", 0, target, version, headers, body_bytes)


def _parse_body_bytes(headers: Headers) -> int | None:
    lengths, codings = _values(headers, "content-length"), _values(headers, "transfer-encoding")
    if codings == ["chunked"] and not lengths:
        return None
    if codings or len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise HeadError("the length of the body is ambiguous")
    return int(lengths[0]) if lengths else 0


def _values(headers: Headers, name: str) -> list[str]:
    return [value for key, value in headers if key.lower() == name]


def _split(head: bytes) -> tuple[str, Headers]:
    first, *lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    return first, tuple(_parse_header(line) for line in lines)


def _parse_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise HeadError("a header line is invalid")
    return name, value.strip(" \t")


def _parse_authority(text: str, default_port: int | None) -> tuple[str, int]:
    try:
        name, port = split_port(text)
    except ValueError:
        raise HeadError("the port is not a number from 1 to 65535") from None
    host, port = normalize_host(name), port or default_port
    if host is None or port is None:
        raise HeadError("the host is invalid: write HOST:PORT")
    return host, port


def _parse_tunnel(target: str) -> tuple[str, int | None, str]:
    return target, None, ""


def _parse_url(target: str) -> tuple[str, int | None, str]:
    """Authority, default port and path, without user information."""
    try:
        parts = urlsplit(target)
    except ValueError:
        raise HeadError("the URL is invalid") from None
    if parts.scheme != "http" or not parts.netloc:
        raise HeadError("this is a proxy: request an absolute http:// URL or use CONNECT")
    start = target.index("://") + 3 + len(parts.netloc)
    path = target[start:].partition("#")[0]
    return parts.netloc.rpartition("@")[2], 80, path if path.startswith("/") else f"/{path}"


def _end_to_end(headers: Headers) -> Iterable[tuple[str, str]]:
    """Omits hop-by-hop headers, including headers that `Connection` names."""
    named = {
        option.strip().lower()
        for name, value in headers
        if name.lower() == "connection"
        for option in value.split(",")
    }
    dropped = _HOP_BY_HOP | (named - {"host", "content-length", "transfer-encoding"})
    return (pair for pair in headers if pair[0].lower() not in dropped)


def _format(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = (first, *(f"{name}: {value}" for name, value in headers), "", "")
    return "\r\n".join(lines).encode("latin-1")
