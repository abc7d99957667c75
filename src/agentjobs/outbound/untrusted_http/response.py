"""The answer of a server that anybody may have named: what of it is read, and where reading ends.

Pure: bytes go in piece by piece. What such a server can make this process hold or work through is
bounded here; how long it may take is not known here.
"""

from http import HTTPStatus

import httptools

# Of all heads of one answer together, and of one header.
HEAD_BYTES = 128 * 1024
HEADER_BYTES = 8 * 1024
MOST_HEADERS = 128
# `100 Continue` and the like, before the one answer that counts.
INTERIM_ANSWERS = 8
# What is kept of a body, and what is read for it: chunks may be of one byte each, with any words
# between them.
BODY_BYTES = 16 * 1024
BODY_WIRE_BYTES = 64 * 1024

RawHeaders = list[tuple[bytes, bytes]]


class BadAnswer(Exception):
    """What came is no answer; the message says why."""


class EndlessAnswer(BadAnswer):
    """What came is beyond a bound, and no end of it in sight."""


class _Enough(Exception):
    """Said inside of the parser, to stop it."""


class Answer:
    """`status` is 0 until the head is there. With `is_over` nothing more is read, and
    `leaves_connection` says whether another request may follow."""

    __slots__ = (
        "_bytes_left",
        "_interim_answers",
        "_only_head",
        "_parser",
        "body",
        "headers",
        "is_over",
        "leaves_connection",
        "reason",
        "status",
    )

    def __init__(self, *, only_head: bool = False) -> None:
        """`only_head`: a tunnel begins behind it."""
        self.status = 0
        self.reason = b""
        self.headers: RawHeaders = []
        self.body = bytearray()
        self.is_over = False
        self.leaves_connection = False
        self._only_head = only_head
        self._bytes_left = HEAD_BYTES
        self._interim_answers = 0
        # One for each answer: nothing of this one can become a part of the next.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # As receivers are, and as readers of HTTP may take it.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> None:
        """Raises BadAnswer before the head is there. Afterwards whatever is wrong is the end."""
        if self._parser is None or self.is_over:
            return
        is_too_long = len(data) > self._bytes_left
        if is_too_long:
            data = data[: self._bytes_left]
        self._bytes_left -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break_off(error)
        else:
            if is_too_long:
                self._break_off(EndlessAnswer(f"its head is longer than {HEAD_BYTES // 1024} KiB"))

    def end(self) -> None:
        """Nothing more of it will come."""
        self.is_over = True
        # It knows this answer, and this answer it: nobody else would let go of them.
        self._parser = None

    def _break_off(self, error: Exception) -> None:
        self.is_over = True
        # Of a tunnel the rest is not read here.
        self.leaves_connection = self._only_head
        if self.status == 0:
            raise _as_bad_answer(error)

    # Called by the parser

    def on_message_begin(self) -> None:
        if self.status:
            raise _Enough

    def on_status(self, piece: bytes) -> None:
        self.reason += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return
        if len(self.headers) >= MOST_HEADERS:
            raise EndlessAnswer(f"it has more than {MOST_HEADERS} headers")
        if len(name) + len(value) > HEADER_BYTES:
            raise EndlessAnswer(f"one of its headers is longer than {HEADER_BYTES // 1024} KiB")
        self.headers.append((name, value.rstrip()))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < HTTPStatus.CONTINUE:
            raise BadAnswer(f"its status is {status:03}")
        if _is_interim(status):
            self._forget_interim()
            return
        self.status = status
        self._bytes_left = BODY_WIRE_BYTES
        if self._only_head:
            raise _Enough

    def on_body(self, piece: bytes) -> None:
        room = BODY_BYTES - len(self.body)
        self.body += piece[:room]
        if len(piece) > room:
            raise _Enough

    def on_message_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        if not self.status:
            return
        self.is_over = True
        self.leaves_connection = (
            parser.should_keep_alive()
            and parser.get_http_version() == "1.1"
            and self.status != HTTPStatus.SWITCHING_PROTOCOLS
        )

    def _forget_interim(self) -> None:
        self._interim_answers += 1
        if self._interim_answers > INTERIM_ANSWERS:
            raise EndlessAnswer(
                f"more than {INTERIM_ANSWERS} interim answers came, and no final one"
            )
        self.reason = b""
        self.headers = []


def _as_bad_answer(error: Exception) -> BadAnswer:
    # What a callback raised is the context of what the parser raises then.
    for cause in (error, error.__context__):
        if isinstance(cause, BadAnswer):
            return cause
    return BadAnswer(str(error))


def _is_interim(status: int) -> bool:
    return 100 <= status < 200 and status != HTTPStatus.SWITCHING_PROTOCOLS
