"""Parsing of untrusted responses: in pieces of any size, and within limits."""

import pytest

from agentjobs.webhooks.untrusted_http import response as limits
from agentjobs.webhooks.untrusted_http.response import InvalidResponse, Response, ResponseTooLarge

OK = b"HTTP/1.1 200 OK\r\n"


def parse(data: bytes, *, piece_bytes: int | None = None) -> Response:
    response = Response()
    step = piece_bytes or len(data)
    for at in range(0, len(data), step):
        response.feed(data[at : at + step])
    return response


# Status, headers, body; whether its end was seen, and whether a request may follow.
WHOLE: dict[str, tuple[bytes, tuple[int, bytes, bool, bool]]] = {
    "a length": (OK + b"Content-Length: 2\r\n\r\nok", (200, b"ok", True, True)),
    "chunks": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n1 \r\n!\r\n0\r\nT: t\r\n\r\n",
        (200, b"ok!", True, True),
    ),
    "until the end": (OK + b"\r\nto be continued", (200, b"to be continued", False, False)),
    "no content": (b"HTTP/1.1 204 No\r\n\r\n", (204, b"", True, True)),
    "not modified": (b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", (304, b"", True, True)),
    "the end announced": (
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        (200, b"ok", True, False),
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", (200, b"ok", True, False)),
    "HTTP/1.0 that would go on": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        (200, b"ok", True, False),
    ),
    "interim responses first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
        + OK
        + b"Content-Length: 2\r\n\r\nok",
        (200, b"ok", True, True),
    ),
    "another protocol": (
        b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        (101, b"", True, False),
    ),
    "another protocol without its name": (b"HTTP/1.1 101 Now\r\n\r\n", (101, b"", True, False)),
    "lines without CR": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", (200, b"ok", True, True)),
    "a status nobody knows": (
        b"HTTP/1.1 999 Said\r\nContent-Length: 0\r\n\r\n",
        (999, b"", True, True),
    ),
}


@pytest.mark.parametrize("piece_bytes", [None, 1, 7])
@pytest.mark.parametrize(("data", "expected"), WHOLE.values(), ids=WHOLE)
def test_a_response_is_parsed_in_pieces_of_any_size(
    data: bytes, expected: tuple[int, bytes, bool, bool], piece_bytes: int | None
) -> None:
    response = parse(data, piece_bytes=piece_bytes)
    seen = (response.status, bytes(response.body), response.is_complete, response.keeps_connection)
    assert seen == expected


@pytest.mark.parametrize("piece_bytes", [None, 1])
def test_headers_and_reason_come_from_the_final_response(piece_bytes: int | None) -> None:
    data = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 404 Not  here\r\nA:  b c \r\nE:\r\n\r\n"
    response = parse(data, piece_bytes=piece_bytes)
    assert response.reason == b"Not  here"
    assert response.headers == [(b"A", b"b c"), (b"E", b"")]


BEHIND = {
    "a second response": OK + b"Content-Length: 0\r\n\r\n",
    "half a head": b"H",
    "something else": b"\0garbage",
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_data_after_the_response_prevents_reuse_of_the_connection(behind: bytes) -> None:
    response = parse(OK + b"Content-Length: 2\r\n\r\nok" + behind)
    assert (response.status, bytes(response.body)) == (200, b"ok")
    assert response.is_complete
    assert not response.keeps_connection


def test_bytes_after_a_response_without_a_body_are_ignored() -> None:
    response = parse(b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok")
    assert (response.status, bytes(response.body)) == (204, b"")
    assert not response.keeps_connection


BAD = {
    "no HTTP": b"220 mail.test ESMTP\r\n",
    "a control character in a header": OK + b"X-A: \x1b\r\n\r\n",
    "a NUL in a header": OK + b"X-A: a\0b\r\n\r\n",
    "a space in a header's name": OK + b"X A: b\r\n\r\n",
    "a header over two lines": OK + b"X-A: a\r\n b\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length and chunks": OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a length that is none": OK + b"Content-Length: +1\r\n\r\n",
    "a length beyond all": OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "a status of no class": b"HTTP/1.1 000 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
}


@pytest.mark.parametrize("piece_bytes", [None, 1])
@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_malformed_head_is_invalid(data: bytes, piece_bytes: int | None) -> None:
    with pytest.raises(InvalidResponse):
        parse(data, piece_bytes=piece_bytes)


ENDLESS = {
    "a header": OK + b"X-A: " + b"x" * limits.MAX_HEAD_BYTES,
    "a header that ends": OK + b"X-A: " + b"x" * limits.MAX_HEADER_BYTES + b"\r\n\r\n",
    "headers": OK + b"X: y\r\n" * (limits.MAX_HEADERS + 1) + b"\r\n",
    "a reason": b"HTTP/1.1 200 " + b"x" * limits.MAX_HEAD_BYTES,
    "interim responses": b"HTTP/1.1 102 Wait\r\n\r\n" * (limits.MAX_INTERIM_RESPONSES + 1),
    "long interim responses": (b"HTTP/1.1 103 E\r\n" + b"A: " + b"x" * 8_000 + b"\r\n") * 17,
    "empty lines": b"\r\n" * limits.MAX_HEAD_BYTES,
}


@pytest.mark.parametrize("piece_bytes", [None, 1_000])
@pytest.mark.parametrize("data", ENDLESS.values(), ids=ENDLESS)
def test_a_head_beyond_a_limit_is_invalid(data: bytes, piece_bytes: int | None) -> None:
    with pytest.raises(InvalidResponse):
        parse(data, piece_bytes=piece_bytes)


def test_a_response_within_all_limits_is_kept_whole() -> None:
    interim = b"HTTP/1.1 102 Wait\r\n\r\n" * limits.MAX_INTERIM_RESPONSES
    headers = b"X: y\r\n" * (limits.MAX_HEADERS - 1) + b"Content-Length: 16384\r\n"
    response = parse(interim + OK + headers + b"\r\n" + b"x" * limits.MAX_BODY_BYTES)
    assert len(response.headers) == limits.MAX_HEADERS
    assert len(response.body) == limits.MAX_BODY_BYTES
    assert response.keeps_connection


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = {
    "a body": OK + b"Content-Length: 1000000\r\n\r\n" + b"x" * 100_000,
    "a body without a length": OK + b"\r\n" + b"x" * 100_000,
    "chunks": CHUNKED + (b"400\r\n" + b"x" * 0x400 + b"\r\n") * 100,
    "tiny chunks": CHUNKED + b"1\r\nx\r\n" * 100_000,
    "a chunk extension": CHUNKED + b"1;" + b"x" * 1_000_000,
    "trailers": CHUNKED + b"0\r\n" + b"X: y\r\n" * 100_000,
}


@pytest.mark.parametrize("piece_bytes", [None, 1_000])
@pytest.mark.parametrize("data", LONG.values(), ids=LONG)
def test_only_the_beginning_of_a_long_body_is_read(data: bytes, piece_bytes: int | None) -> None:
    response = parse(data, piece_bytes=piece_bytes)
    assert response.status == 200
    assert response.is_complete
    assert not response.keeps_connection
    assert len(response.body) <= limits.MAX_BODY_BYTES


def test_a_malformed_body_ends_the_response_but_keeps_its_status() -> None:
    response = parse(CHUNKED + b"2\r\nok\r\nnonsense\r\n")
    assert (response.status, bytes(response.body)) == (200, b"ok")
    assert response.is_complete
    assert not response.keeps_connection


def test_nothing_after_the_head_of_a_tunnel_is_read() -> None:
    response = Response(head_only=True)
    response.feed(b"HTTP/1.1 200 Connection established\r\nContent-Length: 5\r\n\r\nwhatever")
    assert (response.status, bytes(response.body)) == (200, b"")
    assert response.is_complete


def test_an_exceeded_limit_is_not_reported_as_invalid_http() -> None:
    with pytest.raises(ResponseTooLarge, match="more than 128 headers"):
        parse(ENDLESS["headers"])
    with pytest.raises(ResponseTooLarge, match="exceeds 128 KiB"):
        parse(ENDLESS["empty lines"])
