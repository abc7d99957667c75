"""Checks the host of a URL before it is resolved: IP addresses must be in canonical form.

Parsers, including a proxy's, disagree about other spellings. Names are checked when they are
dialled, once their addresses are known.
"""

import ipaddress
import re
import socket

from agentjobs_runtime.outbound.guard.addresses import AllowList, refusal_reason

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\.?$){_LABEL}(?:\.{_LABEL})*\.?", re.IGNORECASE | re.ASCII)
# Some parsers read a host with such a last label as a number.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)


def host_refusal_reason(host: str, allowed: AllowList) -> str | None:
    """None if `host`, without brackets, is a name or may be dialled."""
    try:
        canonical = canonical_address(host)
    except ValueError as error:
        return str(error)
    if canonical is None:
        return None
    # All parsers agree on IPv6 addresses, however they are spelled.
    if canonical != host and ":" not in host:
        return f"{host} is not a canonical IP address: write {canonical}"
    return refusal_reason(host, allowed)


def canonical_address(host: str) -> str | None:
    """The IP address that a parser could read, without brackets; None for a name.

    Raises ValueError if the host is neither.
    """
    if ":" in host:
        return _canonical_ipv6(host)
    if not _NAME.fullmatch(host):
        raise ValueError(f"{host!r} is neither a name nor an IP address")
    return _canonical_ipv4(host) if _is_number(host) else None


def _is_number(host: str) -> bool:
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def _canonical_ipv4(host: str) -> str:
    try:
        return socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        raise _not_an_address(host) from None


def _canonical_ipv6(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        raise _not_an_address(host) from None
    if address.scope_id is not None:
        # A zone identifier names an interface of this machine.
        raise _not_an_address(host)
    return str(address.ipv4_mapped or address)


def _not_an_address(host: str) -> ValueError:
    return ValueError(f"{host!r} is not an IP address")
