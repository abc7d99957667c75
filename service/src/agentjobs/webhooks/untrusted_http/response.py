"""The response of an untrusted server, parsed within limits.

Pure: bytes go in piece by piece. Limits how much memory and work a server can cause; timeouts are
the connection's.
"""

from http import HTTPStatus

import httptools

# For all heads of one response together, and for one header.
MAX_HEAD_BYTES = 128 * 1024
MAX_HEADER_BYTES = 8 * 1024
MAX_HEADERS = 128
# `100 Continue` and the like, before the final response.
MAX_INTERIM_RESPONSES = 8
# How much of a body is kept, and how much is read for it: chunks may have one byte each, and
# extensions of any length.
MAX_BODY_BYTES = 16 * 1024
MAX_BODY_WIRE_BYTES = 64 * 1024

RawHeaders = list[tuple[bytes, bytes]]


class InvalidResponse(Exception):
    """The message says what is wrong with the response."""


class ResponseTooLarge(InvalidResponse):
    """The response exceeded a limit before its head was complete."""


class _StopParsing(Exception):
    """Raised in a callback to stop the parser."""


class Response:
    """`status` is 0 until the head is complete. After `is_complete` nothing more is read, and
    `keeps_connection` says whether another request may follow."""

    __slots__ = (
        "_bytes_left",
        "_head_only",
        "_interim_count",
        "_parser",
        "body",
        "headers",
        "is_complete",
        "keeps_connection",
        "reason",
        "status",
    )

    def __init__(self, *, head_only: bool = False) -> None:
        """`head_only`: a tunnel starts after the head."""
        self.status = 0
        self.reason = b""
        self.headers: RawHeaders = []
        self.body = bytearray()
        self.is_complete = False
        self.keeps_connection = False
        self._head_only = head_only
        self._bytes_left = MAX_HEAD_BYTES
        self._interim_count = 0
        # A new parser per response: nothing of one response can leak into the next.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # Deviations that real receivers show and that the HTTP specification lets clients accept.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> None:
        """Raises InvalidResponse if the head is invalid; a fault in the body ends the response."""
        if self._parser is None or self.is_complete:
            return
        is_too_long = len(data) > self._bytes_left
        if is_too_long:
            data = data[: self._bytes_left]
        self._bytes_left -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._stop(error)
        else:
            if is_too_long:
                self._stop(ResponseTooLarge(f"its head exceeds {MAX_HEAD_BYTES // 1024} KiB"))

    def close(self) -> None:
        """No more data will be fed."""
        self.is_complete = True
        # The parser and this object refer to each other.
        self._parser = None

    def _stop(self, error: Exception) -> None:
        self.is_complete = True
        self.keeps_connection = False
        if self.status == 0:
            raise _to_invalid_response(error)

    # Called by the parser

    def on_message_begin(self) -> None:
        if self.status:
            raise _StopParsing

    def on_status(self, piece: bytes) -> None:
        self.reason += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return
        if len(self.headers) >= MAX_HEADERS:
            raise ResponseTooLarge(f"it has more than {MAX_HEADERS} headers")
        if len(name) + len(value) > MAX_HEADER_BYTES:
            raise ResponseTooLarge(f"one of its headers exceeds {MAX_HEADER_BYTES // 1024} KiB")
        self.headers.append((name, value.rstrip()))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < HTTPStatus.CONTINUE:
            raise InvalidResponse(f"its status is {status:03}")
        if _is_interim(status):
            self._discard_interim()
            return
        self.status = status
        self._bytes_left = MAX_BODY_WIRE_BYTES
        if self._head_only:
            raise _StopParsing

    def on_body(self, piece: bytes) -> None:
        bytes_left = MAX_BODY_BYTES - len(self.body)
        self.body += piece[:bytes_left]
        if len(piece) > bytes_left:
            raise _StopParsing

    def on_message_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        if not self.status:
            return
        self.is_complete = True
        self.keeps_connection = (
            parser.should_keep_alive()
            and parser.get_http_version() == "1.1"
            and self.status != HTTPStatus.SWITCHING_PROTOCOLS
        )

    def _discard_interim(self) -> None:
        self._interim_count += 1
        if self._interim_count > MAX_INTERIM_RESPONSES:
            raise ResponseTooLarge(
                f"more than {MAX_INTERIM_RESPONSES} interim responses arrived and no final one"
            )
        self.reason = b""
        self.headers = []


def _to_invalid_response(error: Exception) -> InvalidResponse:
    # The parser's own exception has the one raised in a callback as its context.
    for cause in (error, error.__context__):
        if isinstance(cause, InvalidResponse):
            return cause
    return InvalidResponse(str(error))


def _is_interim(status: int) -> bool:
    return 100 <= status < 200 and status != HTTPStatus.SWITCHING_PROTOCOLS
