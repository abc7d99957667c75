"""Parses the first message of a TLS handshake, without decrypting anything.

Pure and strict: what a server might read in another way is refused.
"""

from typing import NamedTuple

import msgspec

MAX_BYTES = 32 * 1024
# A message may be split over several records, even of one byte each.
MAX_RECORDS = 64

CHANGE_CIPHER_SPEC = 20
HANDSHAKE = 22
RECORD_HEADER_BYTES = 5
_MAX_RECORD_BYTES = 2**14
_MAJOR_VERSION = 3
_CLIENT_HELLO = 1
_MESSAGE_HEADER_BYTES = 4
_RANDOM_BYTES = 32
_MAX_SESSION_ID_BYTES = 32
_HOST_NAME = 0

_SERVER_NAME = 0
_EARLY_DATA = 42
# The final one, and the one of the drafts.
_ENCRYPTED_CLIENT_HELLO = frozenset({0xFE0D, 0xFFCE})


class ClientHelloError(ValueError):
    """The message describes what is wrong with the connection."""


class ClientHello(msgspec.Struct, frozen=True):
    """`server_name` is None if the client names no server."""

    server_name: str | None


class _Message(NamedTuple):
    body: bytes
    end: int


def read_client_hello(data: bytes) -> tuple[ClientHello, int] | None:
    """The message, and where it ends in the data; None if more data is needed.

    Raises ClientHelloError.
    """
    message = _read_message(data)
    if message is None:
        if len(data) > MAX_BYTES:
            raise ClientHelloError("its TLS handshake is too long")
        return None
    return _parse(message.body), message.end


def starts_handshake(data: bytes) -> bool | None:
    """Whether the data starts with a record of a TLS handshake; None if more data is needed."""
    if data[:1] and data[0] != HANDSHAKE:
        return False
    return data[1] == _MAJOR_VERSION if len(data) > 1 else None


def starts_client_hello(data: bytes) -> bool | None:
    """Whether a record starts with a client hello; None if more data is needed."""
    if (is_handshake := starts_handshake(data)) is not True:
        return is_handshake
    return data[RECORD_HEADER_BYTES] == _CLIENT_HELLO if len(data) > RECORD_HEADER_BYTES else None


def record_end(data: bytes) -> int | None:
    """Where the first record ends; None if more data is needed to know."""
    if len(data) < RECORD_HEADER_BYTES:
        return None
    return RECORD_HEADER_BYTES + int.from_bytes(data[3:5])


def _read_message(data: bytes) -> _Message | None:
    """Joins the records that the message is split into."""
    body = b""
    position = 0
    for _ in range(MAX_RECORDS):
        header = data[position : position + RECORD_HEADER_BYTES]
        if starts_handshake(header) is False:
            raise ClientHelloError("it is not TLS")
        if len(header) < RECORD_HEADER_BYTES:
            return None
        length = int.from_bytes(header[3:])
        if not 1 <= length <= _MAX_RECORD_BYTES:
            raise _malformed_error()
        position += RECORD_HEADER_BYTES
        body += data[position : position + length]
        position += length
        expected = _message_bytes(body)
        if expected is not None and expected <= len(body):
            if expected < len(body):
                raise _malformed_error()
            return _Message(body[_MESSAGE_HEADER_BYTES:], position)
        if len(data) < position:
            return None
    raise ClientHelloError("its TLS handshake is split into too many records")


def _message_bytes(body: bytes) -> int | None:
    if body[:1] and body[0] != _CLIENT_HELLO:
        raise _malformed_error()
    if len(body) < _MESSAGE_HEADER_BYTES:
        return None
    length = _MESSAGE_HEADER_BYTES + int.from_bytes(body[1:4])
    if length > MAX_BYTES:
        raise ClientHelloError("its TLS handshake is too long")
    return length


def _parse(body: bytes) -> ClientHello:
    reader = _Reader(body)
    reader.take(2 + _RANDOM_BYTES)
    if len(reader.take_vector(1)) > _MAX_SESSION_ID_BYTES:
        raise _malformed_error()
    reader.take_vector(2)
    reader.take_vector(1)
    if reader.is_at_end():
        return ClientHello(None)
    extensions = _parse_extensions(reader.take_vector(2))
    if not reader.is_at_end():
        raise _malformed_error()
    if _ENCRYPTED_CLIENT_HELLO & extensions.keys():
        raise ClientHelloError("its TLS handshake hides the name of the server (ECH)")
    if _EARLY_DATA in extensions:
        # A second client hello could follow the early data.
        raise ClientHelloError("its TLS handshake sends early data")
    names = extensions.get(_SERVER_NAME)
    return ClientHello(None if names is None else _parse_server_name(names))


def _parse_extensions(data: bytes) -> dict[int, bytes]:
    reader = _Reader(data)
    extensions: dict[int, bytes] = {}
    while not reader.is_at_end():
        kind = int.from_bytes(reader.take(2))
        if kind in extensions:
            raise _malformed_error()
        extensions[kind] = reader.take_vector(2)
    return extensions


def _parse_server_name(data: bytes) -> str:
    outer = _Reader(data)
    reader = _Reader(outer.take_vector(2))
    kind = reader.take(1)[0]
    name = reader.take_vector(2)
    if not (outer.is_at_end() and reader.is_at_end()) or kind != _HOST_NAME or not name.isascii():
        raise _malformed_error()
    return name.decode()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) < count:
            raise _malformed_error()
        self._position += count
        return taken

    def take_vector(self, length_bytes: int) -> bytes:
        return self.take(int.from_bytes(self.take(length_bytes)))


def _malformed_error() -> ClientHelloError:
    return ClientHelloError("its TLS handshake is malformed")
