"""What of a stranger's answer is read, in whatever pieces it comes, and where reading ends."""

import pytest

from agentjobs.outbound.untrusted_http import response
from agentjobs.outbound.untrusted_http.response import Answer, BadAnswer, EndlessAnswer

OK = b"HTTP/1.1 200 OK\r\n"


def fed(data: bytes, *, at_once: int | None = None) -> Answer:
    answer = Answer()
    step = at_once or len(data)
    for at in range(0, len(data), step):
        answer.feed(data[at : at + step])
    return answer


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
    "interim answers first": (
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


@pytest.mark.parametrize("at_once", [None, 1, 7])
@pytest.mark.parametrize(("data", "expected"), WHOLE.values(), ids=WHOLE)
def test_an_answer_is_read_in_any_pieces(
    data: bytes, expected: tuple[int, bytes, bool, bool], at_once: int | None
) -> None:
    answer = fed(data, at_once=at_once)
    seen = (answer.status, bytes(answer.body), answer.is_over, answer.leaves_connection)
    assert seen == expected


@pytest.mark.parametrize("at_once", [None, 1])
def test_headers_and_reason_are_the_final_answers(at_once: int | None) -> None:
    data = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 404 Not  here\r\nA:  b c \r\nE:\r\n\r\n"
    answer = fed(data, at_once=at_once)
    assert answer.reason == b"Not  here"
    assert answer.headers == [(b"A", b"b c"), (b"E", b"")]


BEHIND = {
    "a second answer": OK + b"Content-Length: 0\r\n\r\n",
    "half a one": b"H",
    "something else": b"\0garbage",
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_with_words_behind_its_end_no_request_may_follow(behind: bytes) -> None:
    answer = fed(OK + b"Content-Length: 2\r\n\r\nok" + behind)
    assert (answer.status, bytes(answer.body)) == (200, b"ok")
    assert answer.is_over
    assert not answer.leaves_connection


def test_the_body_of_an_answer_that_has_none_is_no_part_of_it() -> None:
    answer = fed(b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok")
    assert (answer.status, bytes(answer.body)) == (204, b"")
    assert not answer.leaves_connection


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


@pytest.mark.parametrize("at_once", [None, 1])
@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_malformed_is_no_answer(data: bytes, at_once: int | None) -> None:
    with pytest.raises(BadAnswer):
        fed(data, at_once=at_once)


ENDLESS = {
    "a header": OK + b"X-A: " + b"x" * response.HEAD_BYTES,
    "a header that ends": OK + b"X-A: " + b"x" * response.HEADER_BYTES + b"\r\n\r\n",
    "headers": OK + b"X: y\r\n" * (response.MOST_HEADERS + 1) + b"\r\n",
    "a reason": b"HTTP/1.1 200 " + b"x" * response.HEAD_BYTES,
    "interim answers": b"HTTP/1.1 102 Wait\r\n\r\n" * (response.INTERIM_ANSWERS + 1),
    "long interim answers": (b"HTTP/1.1 103 E\r\n" + b"A: " + b"x" * 8_000 + b"\r\n") * 17,
    "empty lines": b"\r\n" * response.HEAD_BYTES,
}


@pytest.mark.parametrize("at_once", [None, 1_000])
@pytest.mark.parametrize("data", ENDLESS.values(), ids=ENDLESS)
def test_a_head_without_an_end_is_given_up(data: bytes, at_once: int | None) -> None:
    with pytest.raises(BadAnswer):
        fed(data, at_once=at_once)


def test_what_is_within_the_bounds_is_read() -> None:
    interim = b"HTTP/1.1 102 Wait\r\n\r\n" * response.INTERIM_ANSWERS
    headers = b"X: y\r\n" * (response.MOST_HEADERS - 1) + b"Content-Length: 16384\r\n"
    answer = fed(interim + OK + headers + b"\r\n" + b"x" * response.BODY_BYTES)
    assert len(answer.headers) == response.MOST_HEADERS
    assert len(answer.body) == response.BODY_BYTES
    assert answer.leaves_connection


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = {
    "a body": OK + b"Content-Length: 1000000\r\n\r\n" + b"x" * 100_000,
    "a body without a length": OK + b"\r\n" + b"x" * 100_000,
    "chunks": CHUNKED + (b"400\r\n" + b"x" * 0x400 + b"\r\n") * 100,
    "tiny chunks": CHUNKED + b"1\r\nx\r\n" * 100_000,
    "words between chunks": CHUNKED + b"1;" + b"x" * 1_000_000,
    "trailers": CHUNKED + b"0\r\n" + b"X: y\r\n" * 100_000,
}


@pytest.mark.parametrize("at_once", [None, 1_000])
@pytest.mark.parametrize("data", LONG.values(), ids=LONG)
def test_of_what_follows_the_head_only_the_beginning_is_read(
    data: bytes, at_once: int | None
) -> None:
    answer = fed(data, at_once=at_once)
    assert answer.status == 200
    assert answer.is_over
    assert not answer.leaves_connection
    assert len(answer.body) <= response.BODY_BYTES


def test_a_malformed_body_ends_an_answer_and_does_not_undo_it() -> None:
    answer = fed(CHUNKED + b"2\r\nok\r\nnonsense\r\n")
    assert (answer.status, bytes(answer.body)) == (200, b"ok")
    assert answer.is_over
    assert not answer.leaves_connection


def test_behind_the_head_of_a_tunnel_nothing_is_read() -> None:
    answer = Answer(only_head=True)
    answer.feed(b"HTTP/1.1 200 Connection established\r\nContent-Length: 5\r\n\r\nwhatever")
    assert (answer.status, bytes(answer.body)) == (200, b"")
    assert answer.is_over
    assert answer.leaves_connection


def test_a_bound_is_told_apart_from_bad_http() -> None:
    with pytest.raises(EndlessAnswer, match="more than 128 headers"):
        fed(ENDLESS["headers"])
    with pytest.raises(EndlessAnswer, match="longer than 128 KiB"):
        fed(ENDLESS["empty lines"])
