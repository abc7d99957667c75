"""Clients that never finish their request, on a real socket."""

import json
import socket
from urllib.parse import urlsplit

from tests.support.service import Api, Service


def connect(service: Service) -> socket.socket:
    url = urlsplit(service.base_url)
    assert url.hostname is not None
    assert url.port is not None
    return socket.create_connection((url.hostname, url.port), timeout=10)


def receive_all(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def test_endless_headers_get_a_response_and_are_disconnected(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(b"GET /v1/agents HTTP/1.1\r\n")
        # Only slightly over the limit: unread bytes would reset the connection before the response.
        connection.sendall(b"x-padding: y\r\n" * (64 * 1024 // 14))
        head, _, body = receive_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["error"]["code"] == "headers_too_large"


def test_large_headers_below_the_limit_are_read(api: Api) -> None:
    response = api.http.get("/agents", headers={"X-Padding": "y" * 60_000})
    assert response.status_code == 200


def test_a_request_with_no_host_or_two_gets_the_error_shape(service: Service) -> None:
    for hosts in (b"", b"Host: a.example\r\nHost: b.example\r\n"):
        with connect(service) as connection:
            connection.sendall(
                b"GET /v1/agents HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n"
            )
            head, _, body = receive_all(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["error"]["code"] == "bad_request"
