"""The hosts an agent may reach, as its definition writes them: `example.com`, `*.example.com:8443`.

Pure: reads and compares names. What a name resolves to is judged where it is dialled.
"""

import ipaddress
import re
from collections.abc import Iterable

import msgspec

DEFAULT_PORTS = (443, 80)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# What inet_aton takes for an address: the last part is a number, also in octal or hexadecimal.
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_HIGHEST_PORT = 65_535
_LONGEST_NAME = 253


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is lower case and without brackets; with `subdomains` it means those, not itself."""

    host: str
    ports: tuple[int, ...] = DEFAULT_PORTS
    subdomains: bool = False
    is_address: bool = False

    def permits(self, host: str, port: int) -> bool:
        """`host` as `normalize_host` gives it."""
        if port not in self.ports:
            return False
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host


def parse_pattern(text: str) -> Pattern:
    """Raises ValueError, which says what is wrong with it and what would be right."""
    if "/" in text or "@" in text:
        raise ValueError(f"{text!r} is an address of a page: write only its host, host:port")
    host, port = split_port(text.strip())
    subdomains = host.startswith("*.")
    name = normalize_host(host.removeprefix("*.") if subdomains else host)
    if name is None:
        raise ValueError(_what_is_wrong(text, host))
    is_address = _is_address(name)
    if is_address and subdomains:
        raise ValueError(f"{text!r}: an IP address has no subdomains")
    if name == "localhost" or name.endswith(".localhost"):
        raise ValueError(f"{text!r}: inside its sandbox an agent is alone on localhost")
    ports = DEFAULT_PORTS if port is None else (port,)
    return Pattern(host=name, ports=ports, subdomains=subdomains, is_address=is_address)


def is_pattern(text: str) -> bool:
    try:
        parse_pattern(text)
    except ValueError:
        return False
    return True


def split_port(text: str) -> tuple[str, int | None]:
    """The port is None where none is given; raises ValueError if it is none at all."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    if not (port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= _HIGHEST_PORT):
        raise ValueError(f"{text!r}: a port is a number from 1 to {_HIGHEST_PORT}")
    return host, int(port)


def normalize_host(text: str) -> str | None:
    """One spelling for each host: lower case, no brackets, no last dot; None: it is no host."""
    if text.startswith("[") and text.endswith("]"):
        return _plain_address(text[1:-1], ipaddress.IPv6Address)
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _plain_address(name, ipaddress.IPv4Address)
    is_name = len(name) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, labels))
    return name if is_name else None


def bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_permitted(patterns: Iterable[Pattern], host: str, port: int) -> bool:
    return any(pattern.permits(host, port) for pattern in patterns)


def _plain_address(
    text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]
) -> str | None:
    try:
        return str(kind(text))
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdecimal()


def _what_is_wrong(text: str, host: str) -> str:
    if not host.isascii():
        return f"{text!r}: write the name in its ASCII form, which begins with xn--"
    if text.count(":") > 1:
        return f"{text!r}: write an IPv6 address in brackets, like [2001:db8::1]:443"
    if "*" in host:
        return f"{text!r}: a star stands only at the beginning, for all subdomains: *.example.com"
    return f"{text!r} is not a host: write example.com, example.com:8443 or *.example.com"
