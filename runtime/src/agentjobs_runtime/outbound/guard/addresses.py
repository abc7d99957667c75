"""Which addresses the service may dial on behalf of others: a deny table and an allow list.

Pure: checks the address that is dialled; knows neither names nor sockets.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# `is_global` accepts multicast, 6to4 and NAT64, hence this table. The first match gives the
# reason, so specific ranges precede the ranges that contain them.
_DENIED = (
    ("0.0.0.0/8", "an address of the local network"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "a shared carrier-grade NAT address"),
    ("127.0.0.0/8", "a loopback address"),
    ("168.63.129.16/32", "a cloud platform's internal address"),
    ("169.254.0.0/16", "a link-local address, as cloud metadata services use"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "reserved for protocols"),
    ("192.0.2.0/24", "a documentation address"),
    ("192.31.196.0/24", "reserved for reverse lookups"),
    ("192.52.193.0/24", "reserved for multicast tunnels"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "a private address"),
    ("192.175.48.0/24", "reserved for reverse lookups"),
    ("198.18.0.0/15", "a benchmarking address"),
    ("198.51.100.0/24", "a documentation address"),
    ("203.0.113.0/24", "a documentation address"),
    ("224.0.0.0/4", "a multicast address"),
    ("255.255.255.255/32", "the broadcast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::/128", "the unspecified address"),
    ("::1/128", "a loopback address"),
    ("::/96", "an IPv4-compatible address"),
    ("::ffff:0:0:0/96", "an IPv4-translated address"),
    ("64:ff9b::/96", "a NAT64 address"),
    ("64:ff9b:1::/48", "a local NAT64 address"),
    ("100::/64", "a discarded address"),
    ("2001::/32", "a Teredo address"),
    ("2001::/23", "reserved for protocols"),
    ("2001:db8::/32", "a documentation address"),
    ("2002::/16", "a 6to4 address"),
    ("2620:4f:8000::/48", "reserved for reverse lookups"),
    ("3fff::/20", "a documentation address"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a site-local address"),
    ("ff00::/8", "a multicast address"),
    # Only 2000::/3 is allocated.
    ("::/3", "a reserved address"),
    ("4000::/2", "a reserved address"),
    ("8000::/1", "a reserved address"),
)
_TABLE = tuple((ipaddress.ip_network(text), reason) for text, reason in _DENIED)
# Ranges whose last 32 bits are an IPv4 address.
_EMBEDS_IPV4 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)


class AllowList(msgspec.Struct, frozen=True):
    """Networks that the operator permits despite the deny table, and the setting they come from.

    `only_listed`: nothing else may be dialled, not even public addresses.
    """

    networks: tuple[Network, ...] = ()
    setting: str = "AGENTJOBS_EGRESS_ALLOW"
    only_listed: bool = False

    @classmethod
    def parse(cls, texts: Iterable[str], setting: str = "AGENTJOBS_EGRESS_ALLOW") -> Self:
        """Raises ValueError, which names the text that is not a CIDR range."""
        return cls(tuple(_parse_network(text.strip()) for text in texts if text.strip()), setting)

    def without_public(self) -> Self:
        return msgspec.structs.replace(self, only_listed=True)

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


class BlockedAddress(OSError):
    """The address may not be dialled; the message adds the setting that would permit it."""

    def __init__(self, reason: str, setting: str) -> None:
        super().__init__(f"{reason}; {setting} lists what may be reached")
        self.reason = reason


def refusal_reason(address: str, allowed: AllowList) -> str | None:
    """None if the address may be dialled."""
    try:
        parsed = _unmap(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return f"{address} is not an IP address"
    for checked in (parsed, *_embedded_addresses(parsed)):
        if checked not in allowed and (reason := _denial_reason(checked, allowed)):
            if checked == parsed:
                return f"{checked} is {reason}"
            return f"{address} is {reason} ({checked})"
    return None


def join_host_port(address: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def filter_permitted(host: str, addresses: Sequence[str], allowed: AllowList) -> list[str]:
    """The addresses that may be dialled; raises BlockedAddress if none of them may."""
    refusals = {address: refusal_reason(address, allowed) for address in addresses}
    permitted = [address for address, reason in refusals.items() if reason is None]
    if refusals and not permitted:
        reason = next(iter(refusals.values()))
        name = "" if host in refusals else f"{host}: "
        raise BlockedAddress(f"{name}{reason}", allowed.setting)
    return permitted


def _parse_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        reason = f"{text!r} is not a CIDR range such as 10.1.0.0/16 ({error})"
        raise ValueError(reason) from None


def _unmap(address: Address) -> Address:
    """The kernel dials an IPv4-mapped IPv6 address over IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _embedded_addresses(address: Address) -> Iterable[ipaddress.IPv4Address]:
    # ::1 is in ::/96 but embeds no IPv4 address.
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return ()
    if any(address in network for network in _EMBEDS_IPV4):
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()


def _denial_reason(address: Address, allowed: AllowList) -> str | None:
    reason = next((reason for network, reason in _TABLE if address in network), None)
    return reason or ("not a listed address" if allowed.only_listed else None)
