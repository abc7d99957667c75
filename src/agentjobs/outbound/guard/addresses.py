"""Which addresses the service may dial for somebody else: the deny table and its exceptions.

Pure: it judges the address really dialled, and knows neither names nor sockets.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Our own table, because `is_global` says yes to multicast, 6to4 and NAT64. The first match names
# the reason, so that the special ones come before what contains them.
_DENIED = (
    ("0.0.0.0/8", "an address of this network"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "a carrier's shared address"),
    ("127.0.0.0/8", "a loopback address"),
    ("168.63.129.16/32", "a cloud platform's own address"),
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
    # Only 2000::/3 is given out to anybody.
    ("::/3", "a reserved address"),
    ("4000::/2", "a reserved address"),
    ("8000::/1", "a reserved address"),
)
_TABLE = tuple((ipaddress.ip_network(text), reason) for text, reason in _DENIED)
# Addresses that lead to an IPv4 address written in their last 32 bits.
_ENDS_IN_IPV4 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)


class AllowList(msgspec.Struct, frozen=True):
    """What an operator permits in spite of the table, and the setting that says so.

    `only_listed`: nothing else may be dialled, public addresses neither.
    """

    networks: tuple[Network, ...] = ()
    setting: str = "AGENTJOBS_EGRESS_ALLOW"
    only_listed: bool = False

    @classmethod
    def parse(cls, texts: Iterable[str], setting: str = "AGENTJOBS_EGRESS_ALLOW") -> Self:
        """Raises ValueError, which names the text that is no range of addresses."""
        return cls(tuple(_network(text.strip()) for text in texts if text.strip()), setting)

    def alone(self) -> Self:
        return msgspec.structs.replace(self, only_listed=True)

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


class BlockedAddress(OSError):
    """Dialling was refused; the message names the address and the setting that would permit it."""


def refusal_reason(address: str, allowed: AllowList) -> str | None:
    """None: it may be dialled."""
    try:
        parsed = _as_dialled(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return f"{address} is no IP address"
    for judged in (parsed, *_embedded(parsed)):
        if judged not in allowed and (reason := _denial(judged, allowed)):
            return (
                f"{address} is {reason} ({judged})" if judged != parsed else f"{judged} is {reason}"
            )
    return None


def join_host_port(address: str, port: int) -> str:
    """As a URL writes it: an IPv6 address is in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def filter_permitted(host: str, addresses: Sequence[str], allowed: AllowList) -> list[str]:
    """Those that may be dialled; raises BlockedAddress if there are addresses, but none of them."""
    refusals = {address: refusal_reason(address, allowed) for address in addresses}
    permitted = [address for address, reason in refusals.items() if reason is None]
    if refusals and not permitted:
        reason = next(iter(refusals.values()))
        name = "" if host in refusals else f"{host}: "
        raise BlockedAddress(f"{name}{reason}; {allowed.setting} lists what may be reached")
    return permitted


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        reason = f"{text!r} is not a range of addresses such as 10.1.0.0/16 ({error})"
        raise ValueError(reason) from None


def _as_dialled(address: Address) -> Address:
    """The kernel dials an IPv4-mapped address over IPv4: it is that address."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _embedded(address: Address) -> Iterable[ipaddress.IPv4Address]:
    # ::1 lies in ::/96, and is no other address than itself.
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return ()
    if any(address in network for network in _ENDS_IN_IPV4):
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()


def _denial(address: Address, allowed: AllowList) -> str | None:
    reason = next((reason for network, reason in _TABLE if address in network), None)
    return reason or ("an address that is not listed" if allowed.only_listed else None)
