"""The host of a URL, judged before anybody looks it up: only a plain address is one.

Readers disagree about odd spellings, and a proxy is such a reader. Names are judged when their
addresses are known, where those are dialled.
"""

import ipaddress
import re
import socket

from agentjobs.outbound.guard.addresses import AllowList, refusal_reason

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\.?$){_LABEL}(?:\.{_LABEL})*\.?", re.IGNORECASE | re.ASCII)
# To one reader or another such a last label makes the host a number, and never a name.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)


def host_refusal_reason(host: str, allowed: AllowList) -> str | None:
    """None: it may be dialled, or is a name. `host` is without brackets."""
    try:
        plain = canonical_address(host)
    except ValueError as error:
        return str(error)
    if plain is None:
        return None
    # An IPv6 address reads the same to everybody, however it is spelled.
    if plain != host and ":" not in host:
        return f"{host} is no plain IP address: write {plain}"
    return refusal_reason(host, allowed)


def canonical_address(host: str) -> str | None:
    """The IP address that somebody might take it for, without brackets; None: it is a name.

    Raises ValueError if it is neither.
    """
    if ":" in host:
        return _plain_ipv6(host)
    if not _NAME.fullmatch(host):
        raise ValueError(f"{host!r} is neither a name nor an IP address")
    return _plain_ipv4(host) if _is_number(host) else None


def _is_number(host: str) -> bool:
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def _plain_ipv4(host: str) -> str:
    try:
        return socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        raise _no_address(host) from None


def _plain_ipv6(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        raise _no_address(host) from None
    if address.scope_id is not None:
        # An interface of this machine is no part of an address.
        raise _no_address(host)
    return str(address.ipv4_mapped or address)


def _no_address(host: str) -> ValueError:
    return ValueError(f"{host!r} is no IP address")
