"""The host of a URL: a name, a plain address, or a disguised address."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.hosts import host_refusal_reason, is_literal_address

NOTHING = AllowList()
EVERYTHING = AllowList.parse(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize(
    "host", ["example.com", "a", "a.b.", "1.example", "x_y.test", "xn--zca.de", "0x.test", "a-1"]
)
def test_a_name_is_checked_when_it_is_resolved(host: str) -> None:
    assert host_refusal_reason(host, NOTHING) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "FE80::1"])
def test_an_address_is_checked_at_once(host: str) -> None:
    assert host_refusal_reason(host, NOTHING)
    assert host_refusal_reason(host, EVERYTHING) is None


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "0x7f.1", "0177.0.0.1", "2130706433"),
        *("127.0.0.1.", "0X7F000001", "127.0.0.0x1", "8.8.8.010"),
    ],
)
def test_a_non_canonical_spelling_is_refused(host: str) -> None:
    assert "canonical" in str(host_refusal_reason(host, EVERYTHING))


def test_a_host_that_is_neither_a_name_nor_an_address_is_refused() -> None:
    hosts = [
        *("256.1.1.1", "1.2.3.4.5", "a.1", "a.0x", "4294967296", "1..2", "", ".", " ", "a b"),
        *("127%2e0.0.1", "%00", "a\0b", "a/b", "a@b", "\uff11.1.1.1", "caf\xe9.test", "a\n"),
        *("a..b", ".a", "a..", "-a.test", "a-.test", "a" * 64, "\u212a.test", "127.0.0.1.."),
        *("fe80::1%lo", "::g", "1::2::3", ":", "a:1", "127.0.0.1:80"),
    ]
    assert [host for host in hosts if not host_refusal_reason(host, EVERYTHING)] == []


@pytest.mark.parametrize(
    ("host", "is_literal"),
    [
        *(("::ffff:8.8.8.8", True), ("::FFFF:808:808", True), ("0:0::1", True)),
        *(("8.8.8.8", True), ("a.test", False)),
    ],
)
def test_addresses_are_told_from_names(host: str, is_literal: bool) -> None:
    assert is_literal_address(host) is is_literal


@given(st.ip_addresses(v=4))
def test_every_spelling_of_an_ipv4_address_is_recognized(
    address: ipaddress.IPv4Address,
) -> None:
    number = int(address)
    a, b, c, d = address.packed
    for odd in (
        *(
            f"{number:#x}",
            f"{number:#X}",
            f"0{number:o}",
            f"{a:#x}.{b}.{c}.{d}",
            f"{a}.{b}.{c}.{d:#x}",
        ),
        *(f"{a}.{b}.{(c << 8) + d:#x}", f"{a}.{(b << 16) + (c << 8) + d:#x}", f"{address}."),
    ):
        assert "canonical" in str(host_refusal_reason(odd, EVERYTHING))
