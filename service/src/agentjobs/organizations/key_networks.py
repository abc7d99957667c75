"""The networks that an API key may be used from: parsing, storing and matching them. Pure."""

import ipaddress
from collections.abc import Sequence

from agentjobs_runtime.problems import Problem

MAX_NETWORKS = 50

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Raises Problem, which names the text that is not a network."""
    if len(texts) > MAX_NETWORKS:
        raise Problem("invalid_network", f"A key has at most {MAX_NETWORKS} networks.")
    return tuple(dict.fromkeys(_parse(text) for text in texts))


def split_networks(text: str | None) -> list[str]:
    """Parses networks of a form, an option or the store: separated by commas or spaces."""
    return (text or "").replace(",", " ").split()


def join_networks(networks: Sequence[Network]) -> str | None:
    return ",".join(map(str, networks)) or None


def contains_address(networks: Sequence[Network], address: str) -> bool:
    """False for a client without an address, such as one on a Unix socket."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    # A socket for both families shows IPv4 clients as mapped addresses.
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return any((mapped or parsed) in network for network in networks)


def _parse(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise Problem(
            "invalid_network",
            f"{text[:100]!r} is not a network. Write addresses and CIDR ranges such as "
            "203.0.113.7, 10.1.0.0/16 or 2001:db8::/32.",
        ) from None
