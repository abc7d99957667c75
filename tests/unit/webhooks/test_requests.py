"""The bytes of a request to a receiver: what its URL becomes, and what is never sent."""

import ssl

import pytest

from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.webhooks.receivers import Receiver, receiver, request_to

ANYWHERE = Allowed.parse(["0.0.0.0/0", "::/0"])


def of(url: str) -> Receiver:
    return receiver(url, ANYWHERE, ssl.create_default_context(), None)


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://hooks.test", "hooks.test", "/"),
        ("https://hooks.test:443/a", "hooks.test", "/a"),
        ("https://hooks.test:80/a", "hooks.test:80", "/a"),
        ("http://hooks.test:80/a", "hooks.test", "/a"),
        ("https://hooks.test:8443?q=1#part", "hooks.test:8443", "/?q=1"),
        ("https://hooks.test./a", "hooks.test", "/a"),
        ("https://[2001:db8::1]/a", "[2001:db8::1]", "/a"),
        ("https://[2001:db8::1]:8443/a", "[2001:db8::1]:8443", "/a"),
        ("https://bücher.test/é?ü=ß", "xn--bcher-kva.test", "/%C3%A9?%C3%BC=%C3%9F"),
        ("https://hooks.test/a%2Fb?x=%20&y=a+b", "hooks.test", "/a%2Fb?x=%20&y=a+b"),
        ("https://hooks.test/a b\r\nX: y", "hooks.test", "/a%20bX:%20y"),
    ],
)
def test_a_url_is_sent_as_http_has_it(url: str, host: str, path: str) -> None:
    request = request_to(of(url), {"A": "b"}, b"body")
    head, _, body = request.data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == f"POST {path} HTTP/1.1"
    assert lines[1] == f"Host: {host}"
    assert lines[1:] == [f"{name}: {value}" for name, value in request.headers]
    assert lines[-2:] == ["A: b", "Content-Length: 4"]
    assert body == b"body"
    assert not request.is_broken


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "a\r", "\r\n\r\nPOST / HTTP/1.1", "a\0"])
@pytest.mark.parametrize("where", ["name", "value"])
def test_a_header_that_would_be_more_than_one_is_not_sent(value: str, where: str) -> None:
    headers = {"A": value} if where == "value" else {value: "a"}
    assert request_to(of("https://hooks.test/"), headers, b"").is_broken
