"""The bytes of a request: how the URL appears in it, and what is never sent."""

import ssl

import pytest

from agentjobs.webhooks.request import Receiver, build_request, parse_receiver
from agentjobs_runtime.outbound.guard.addresses import AllowList

ANYWHERE = AllowList.parse(["0.0.0.0/0", "::/0"])


def receiver(url: str) -> Receiver:
    return parse_receiver(url, ANYWHERE, ssl.create_default_context(), None)


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
def test_the_url_determines_the_request_line_and_host(url: str, host: str, path: str) -> None:
    request = build_request(receiver(url), {"A": "b"}, b"body")
    head, _, body = request.data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == f"POST {path} HTTP/1.1"
    assert lines[1] == f"Host: {host}"
    assert lines[1:] == [f"{name}: {value}" for name, value in request.headers]
    assert lines[-2:] == ["A: b", "Content-Length: 4"]
    assert body == b"body"
    assert not request.is_malformed


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "a\r", "\r\n\r\nPOST / HTTP/1.1", "a\0"])
@pytest.mark.parametrize("where", ["name", "value"])
def test_a_header_with_a_line_break_makes_the_request_malformed(value: str, where: str) -> None:
    headers = {"A": value} if where == "value" else {value: "a"}
    assert build_request(receiver("https://hooks.test/"), headers, b"").is_malformed
