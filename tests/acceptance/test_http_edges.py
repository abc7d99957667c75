"""Clients that never finish their request, on a real socket."""

import json
import socket
from urllib.parse import urlsplit

from tests.support.service import Api, Service


def connected(service: Service) -> socket.socket:
    place = urlsplit(service.base_url)
    assert place.hostname is not None
    assert place.port is not None
    return socket.create_connection((place.hostname, place.port), timeout=10)


def everything(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def test_endless_headers_get_a_response_and_are_disconnected(service: Service) -> None:
    with connected(service) as connection:
        connection.sendall(b"GET /v1/agents HTTP/1.1\r\n")
        # Just over the limit and not a byte more, so that nothing unread resets the answer away.
        connection.sendall(b"x-padding: y\r\n" * (64 * 1024 // 14))
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["error"]["code"] == "headers_too_large"


def test_large_headers_below_the_limit_are_read(api: Api) -> None:
    answer = api.http.get("/agents", headers={"X-Padding": "y" * 60_000})
    assert answer.status_code == 200
