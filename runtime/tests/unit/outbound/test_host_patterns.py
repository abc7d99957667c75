"""Host patterns of the egress policy in an agent definition."""

import pytest

from agentjobs_runtime.outbound.guard.host_patterns import (
    is_permitted,
    narrow_patterns,
    parse_pattern,
)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.com", "example.com", 443),
        ("example.com", "example.com", 80),
        ("EXAMPLE.com.", "example.com", 443),
        ("example.com:8443", "example.com", 8443),
        ("*.example.com", "a.b.example.com", 443),
        ("*.example.com:22", "a.example.com", 22),
        ("192.0.2.1", "192.0.2.1", 443),
        ("[2001:DB8::1]", "2001:db8::1", 443),
        ("[2001:db8:0::1]:8443", "2001:db8::1", 8443),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", 443),
        ("my_host", "my_host", 80),
    ],
)
def test_a_pattern_permits_its_host_and_ports(text: str, host: str, port: int) -> None:
    assert is_permitted([parse_pattern(text)], host, port)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.com", "example.com", 8080),
        ("example.com:8443", "example.com", 443),
        ("example.com", "a.example.com", 443),
        ("example.com", "example.com.evil.test", 443),
        ("example.com", "notexample.com", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "evilexample.com", 443),
        ("192.0.2.1", "192.0.2.11", 443),
    ],
)
def test_a_pattern_permits_nothing_else(text: str, host: str, port: int) -> None:
    assert not is_permitted([parse_pattern(text)], host, port)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a host"),
        ("a b", "not a host"),
        ("-a.test", "not a host"),
        ("a..test", "not a host"),
        ("a" * 64 + ".test", "not a host"),
        ("a.test\nb.test", "not a host"),
        ("https://example.com", "write only host or host:port"),
        ("example.com/path", "write only host or host:port"),
        ("me@example.com", "write only host or host:port"),
        ("*", "star"),
        ("a.*.test", "star"),
        ("*example.com", "star"),
        ("*.*.test", "star"),
        ("*.192.0.2.1", "no subdomains"),
        ("2001:db8::1", "in brackets"),
        ("[zz]", "not a host"),
        ("bücher.example", "xn--"),
        ("example.com:", "a port is a number"),
        ("example.com:0", "a port is a number"),
        ("example.com:65536", "a port is a number"),
        ("example.com:00000180000000", "a port is a number"),
        ("example.com:https", "a port is a number"),
        ("2130706433", "not a host"),
        ("0x7f.1", "not a host"),
        ("127.1", "not a host"),
        ("010.0.0.1", "not a host"),
        ("localhost", "own sandbox"),
        ("a.localhost:80", "own sandbox"),
    ],
)
def test_an_invalid_pattern_is_refused_with_a_suggestion(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_pattern(text)
    assert repr(text) in str(caught.value)


def test_requested_patterns_stay_if_a_granted_one_covers_them() -> None:
    granted = ("a.test", "*.b.test", "c.test:8443", "192.0.2.1")
    covered = ("A.test.", "a.test:443", "x.b.test", "*.x.b.test", "*.b.test:80", "c.test:8443")
    wider = ("*.a.test", "a.test:8443", "b.test", "*.test", "c.test", "xb.test", "192.0.2.2")
    assert narrow_patterns(granted, (*covered, *wider)) == covered
    assert narrow_patterns(granted, ()) == ()
    with pytest.raises(ValueError, match="not a host"):
        narrow_patterns(granted, ("not a host",))
