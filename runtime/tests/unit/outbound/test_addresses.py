"""The deny table: the addresses the service never connects to, and how to permit them."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.outbound.guard.addresses import (
    AllowList,
    BlockedAddress,
    filter_permitted,
    join_host_port,
    refusal_reason,
)

NOTHING = AllowList()


def test_non_public_addresses_are_refused_with_a_reason() -> None:
    addresses = [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200"),
        *("127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254", "169.254.170.2"),
        *("172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1"),
        *("192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7"),
        *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::7f00:1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1"),
        *("::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:10.0.0.1"),
        *("64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "100:0:0:1::1"),
        *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1"),
        *("2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1"),
        *("fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
        *("5f00::1", "4000::1", "8000::1", "fe00::1", "400::1"),
        *("", "localhost", "1.2.3", "0x7f.1", "2130706433", "127.1", "01.02.03.04", "[::1]"),
    ]
    assert [address for address in addresses if not refusal_reason(address, NOTHING)] == []


def test_public_addresses_may_be_dialled() -> None:
    addresses = [
        *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"),
        *("126.255.255.255", "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0"),
        *("192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
        *("2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "::ffff:8.8.8.8"),
    ]
    refused = {address: refusal_reason(address, NOTHING) for address in addresses}
    assert {address: reason for address, reason in refused.items() if reason is not None} == {}


@given(st.ip_addresses())
def test_every_non_global_range_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if refusal_reason(str(address), NOTHING) is None:
        assert (mapped or address).is_global
        assert not (mapped or address).is_multicast


def test_the_allow_list_permits_ranges() -> None:
    allowed = AllowList.parse(["10.1.0.0/16", " fd00::/8", "192.168.7.7", ""])
    for address in ("10.1.2.3", "fd12::1", "192.168.7.7", "::ffff:10.1.2.3"):
        assert refusal_reason(address, allowed) is None
    for address in ("10.2.0.1", "192.168.7.8", "fe80::1", "::1"):
        assert refusal_reason(address, allowed)


def test_public_addresses_are_refused_when_only_listed_ones_are_permitted() -> None:
    listed_only = AllowList.parse(
        ["127.0.0.0/8", "::1/128"], setting="AGENTJOBS_WEBHOOKS_ALLOW"
    ).without_public()
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert refusal_reason(address, listed_only) is None
    for address in ("8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "10.0.0.1", "fe80::1"):
        assert refusal_reason(address, listed_only)
    assert refusal_reason("8.8.8.8", listed_only) == "8.8.8.8 is not a listed address"
    with pytest.raises(BlockedAddress, match="AGENTJOBS_WEBHOOKS_ALLOW lists what may be reached"):
        filter_permitted("x.test", ["8.8.8.8"], listed_only)


def test_an_embedded_address_must_be_listed_too() -> None:
    listed_only = AllowList.parse(["64:ff9b::/96"]).without_public()
    assert refusal_reason("64:ff9b::8.8.8.8", listed_only)


def test_an_ipv6_address_with_a_port_has_brackets() -> None:
    assert join_host_port("203.0.113.7", 443) == "203.0.113.7:443"
    assert join_host_port("2001:db8::1", 443) == "[2001:db8::1]:443"


def test_a_permitted_translation_range_does_not_permit_embedded_addresses() -> None:
    allowed = AllowList.parse(["64:ff9b::/96", "2002::/16", "2001::/32"])
    assert refusal_reason("64:ff9b::8.8.8.8", allowed) is None
    assert refusal_reason("2002:808:808::1", allowed) is None
    for address in ("64:ff9b::10.0.0.1", "2002:a00:1::1", "64:ff9b::169.254.169.254"):
        reason = refusal_reason(address, allowed)
        assert reason is not None
        assert reason.startswith(address)


@pytest.mark.parametrize("text", ["10.0.0.1/8", "ten", "10.0.0.0/33", "*", "example.com"])
def test_an_invalid_range_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a CIDR range such as") as caught:
        AllowList.parse(["10.0.0.0/8", text])
    assert repr(text) in str(caught.value)


def test_only_permitted_addresses_of_a_name_remain() -> None:
    addresses = ["10.0.0.1", "8.8.8.8", "::1"]
    assert filter_permitted("x.test", addresses, NOTHING) == ["8.8.8.8"]
    assert filter_permitted("x.test", [], NOTHING) == []


def test_a_refusal_names_the_host_the_address_and_the_setting() -> None:
    allowed = AllowList.parse([], setting="AGENTJOBS_WEBHOOKS_ALLOW")
    with pytest.raises(BlockedAddress) as caught:
        filter_permitted("x.test", ["10.0.0.1", "10.0.0.2"], allowed)
    assert str(caught.value) == (
        "x.test: 10.0.0.1 is a private address; AGENTJOBS_WEBHOOKS_ALLOW lists what may be reached"
    )
