"""Checks the host of a URL before it is resolved: IPv4 addresses must be in canonical form.

Parsers, including a proxy's, disagree about other spellings. Names are checked when they are
dialled, once their addresses are known.
"""

from agentjobs_runtime.outbound.guard.addresses import AllowList, refusal_reason
from agentjobs_runtime.outbound.guard.host_patterns import (
    bracket_ipv6,
    is_address,
    normalize_host,
)


def host_refusal_reason(host: str, allowed: AllowList) -> str | None:
    """None if `host`, without brackets, is a name or may be dialled."""
    try:
        return refusal_reason(host, allowed) if is_literal_address(host) else None
    except ValueError as error:
        return str(error)


def is_literal_address(host: str) -> bool:
    """Whether `host` is an IP address; False for a name. Raises ValueError if it is neither."""
    normal = normalize_host(bracket_ipv6(host)) if host.isascii() else None
    # A zone identifier names an interface of this machine.
    if normal is None or "%" in host:
        raise ValueError(f"{host!r} is neither a name nor an IP address in canonical form")
    # All parsers agree on IPv6 addresses, however they are spelled.
    if is_address(normal) and ":" not in host and host != normal:
        raise ValueError(f"{host!r} is not a canonical IP address: write {normal}")
    return is_address(normal)
