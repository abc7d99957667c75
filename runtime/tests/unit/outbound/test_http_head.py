"""Heads of HTTP messages on their way through the proxy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.outbound.egress.http_head import HeadError, parse_request, parse_response


def test_a_connect_request_has_a_host_and_a_port() -> None:
    request = parse_request(b"CONNECT Example.COM.:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (request.is_tunnel, request.host, request.port) == (True, "example.com", 443)


@pytest.mark.parametrize(
    ("target", "host", "port", "path"),
    [
        ("http://a.test/x?y=1", "a.test", 80, "/x?y=1"),
        ("http://a.test", "a.test", 80, "/"),
        ("http://a.test?q", "a.test", 80, "/?q"),
        ("HTTP://A.test:8080/#part", "a.test", 8080, "/"),
        ("http://me:pass@a.test/p", "a.test", 80, "/p"),
        ("http://[2001:db8::1]:81/p", "2001:db8::1", 81, "/p"),
        ("http://a.test//b:1/c@d", "a.test", 80, "//b:1/c@d"),
    ],
)
def test_an_absolute_url_has_a_host_a_port_and_a_path(
    target: str, host: str, port: int, path: str
) -> None:
    request = parse_request(f"GET {target} HTTP/1.1\r\n\r\n".encode())
    assert (request.host, request.port, request.path) == (host, port, path)
    assert not request.is_tunnel


def test_the_forwarded_head_names_the_real_host_and_closes_the_connection() -> None:
    request = parse_request(
        b"POST http://a.test:81/x HTTP/1.0\r\nhost: evil.test\r\nHOST: evil.test\r\n"
        b"TE: trailers\r\nUpgrade: h2c\r\nconnection: X-One , X-Two\r\nx-one: 1\r\n"
        b"X-Three: \xe9\r\nContent-Length: 3\r\n\r\n"
    )
    assert request.to_server() == (
        b"POST /x HTTP/1.0\r\nHost: a.test:81\r\nX-Three: \xe9\r\nContent-Length: 3\r\n"
        b"Connection: close\r\n\r\n"
    )


def test_a_client_cannot_remove_the_framing_of_its_body() -> None:
    request = parse_request(
        b"POST http://a.test/ HTTP/1.1\r\nConnection: content-length, transfer-encoding, host\r\n"
        b"Content-Length: 3\r\n\r\n"
    )
    assert b"Content-Length: 3\r\n" in request.to_server()
    assert b"Host: a.test\r\n" in request.to_server()


def test_a_response_keeps_its_framing_and_its_cookies() -> None:
    response = parse_response(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n"
    )
    assert response.to_client() == (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n"
    )


@given(st.binary(max_size=200))
def test_any_head_is_parsed_or_refused(garbage: bytes) -> None:
    for parse in (parse_request, parse_response):
        try:
            parse(garbage + b"\r\n\r\n")
        except HeadError:
            continue


@given(st.text(max_size=60))
def test_any_request_target_is_parsed_or_refused(target: str) -> None:
    head = f"GET http://{target} HTTP/1.1\r\n\r\n".encode()
    try:
        onward = parse_request(head).to_server()
    except HeadError:
        return
    assert onward.startswith(b"GET /")
    assert onward.count(b"\r\n") == 4
