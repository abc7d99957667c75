"""Host patterns for an agent's network access: `example.com`, `*.example.com:8443`.

Pure: parses and compares names. The addresses of a name are checked when it is dialled.
"""

import ipaddress
import re
from collections.abc import Iterable

import msgspec

DEFAULT_PORTS = (443, 80)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# inet_aton accepts a host as an address if its last label is a number, octal and hex included.
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_MAX_PORT = 65_535
_MAX_PORT_DIGITS = 5
_MAX_NAME_LENGTH = 253


class HostPattern(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is normalized. `subdomains`: matches all subdomains of `host`, not `host` itself."""

    host: str
    ports: tuple[int, ...] = DEFAULT_PORTS
    subdomains: bool = False
    is_address: bool = False

    def permits(self, host: str, port: int) -> bool:
        """`host` must be normalized."""
        if port not in self.ports:
            return False
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host

    def covers(self, other: "HostPattern") -> bool:
        """Whether this pattern permits everything that the other one permits."""
        if not set(other.ports) <= set(self.ports):
            return False
        is_below = self.subdomains and not other.is_address and other.host.endswith(f".{self.host}")
        return is_below or (other.host, other.subdomains) == (self.host, self.subdomains)


def parse_pattern(text: str) -> HostPattern:
    """Raises ValueError with a message for the author of the pattern."""
    if "/" in text or "@" in text:
        raise ValueError(f"{text!r} is a URL: write only host or host:port")
    host, port = split_port(text.strip())
    subdomains = host.startswith("*.")
    name = normalize_host(host.removeprefix("*.") if subdomains else host)
    if name is None:
        raise ValueError(_error_message(text, host))
    is_numeric = is_address(name)
    if is_numeric and subdomains:
        raise ValueError(f"{text!r}: an IP address has no subdomains")
    if name == "localhost" or name.endswith(".localhost"):
        raise ValueError(f"{text!r}: localhost is the agent's own sandbox")
    ports = DEFAULT_PORTS if port is None else (port,)
    return HostPattern(host=name, ports=ports, subdomains=subdomains, is_address=is_numeric)


def is_pattern(text: str) -> bool:
    try:
        parse_pattern(text)
    except ValueError:
        return False
    return True


def narrow_patterns(granted: Iterable[str], requested: Iterable[str]) -> tuple[str, ...]:
    """The requested patterns that a granted one covers. Raises ValueError."""
    grants = [parse_pattern(text) for text in granted]
    return tuple(
        text for text in requested if any(grant.covers(parse_pattern(text)) for grant in grants)
    )


def split_port(text: str) -> tuple[str, int | None]:
    """The port is None if the text has none; raises ValueError if it is invalid."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    is_number = port.isascii() and port.isdecimal() and len(port) <= _MAX_PORT_DIGITS
    if not (is_number and 1 <= int(port) <= _MAX_PORT):
        raise ValueError(f"{text!r}: a port is a number from 1 to {_MAX_PORT}")
    return host, int(port)


def normalize_host(text: str) -> str | None:
    """Lower case, without brackets and trailing dot; None if the text is not a host."""
    if text.startswith("[") and text.endswith("]"):
        return _normalize_address(text[1:-1], ipaddress.IPv6Address)
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _normalize_address(name, ipaddress.IPv4Address)
    is_name = len(name) <= _MAX_NAME_LENGTH and all(map(_LABEL.fullmatch, labels))
    return name if is_name else None


def bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_permitted(patterns: Iterable[HostPattern], host: str, port: int) -> bool:
    return any(pattern.permits(host, port) for pattern in patterns)


def _normalize_address(
    text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]
) -> str | None:
    try:
        return str(kind(text))
    except ValueError:
        return None


def is_address(name: str) -> bool:
    """`name` must be normalized."""
    return ":" in name or name.replace(".", "").isdecimal()


def _error_message(text: str, host: str) -> str:
    if not host.isascii():
        return f"{text!r}: write the name in its ASCII form (xn--…)"
    if text.count(":") > 1:
        return f"{text!r}: write an IPv6 address in brackets, like [2001:db8::1]:443"
    if "*" in host:
        return f"{text!r}: a star is only valid at the beginning: *.example.com"
    return f"{text!r} is not a host: write example.com, example.com:8443 or *.example.com"
