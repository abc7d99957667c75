"""Messages that a supervisor sends. Decoding checks every field; unknown fields are ignored."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Literal, TypeVar

import msgspec

from agentjobs_kubernetes.frames import ProtocolError

VERSION = 2
MAX_PORTS = 64

_ExitCode = Annotated[int, msgspec.Meta(ge=0, le=255)]
_Duration = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_PortNumber = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
# They become part of errors and logs.
_Reason = Annotated[str, msgspec.Meta(max_length=65_536)]


class Ended(msgspec.Struct, frozen=True, tag_field="type", tag="ended"):
    """All processes of the agent are dead, and all their output was sent."""

    exit_code: _ExitCode | None
    exceeded: Literal["memory", "workspace", "cpu"] | None = None
    duration_ms: _Duration = 0


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    version: int
    architecture: str
    state: Literal["new", "prepared", "running", "ended"]
    session: int
    # Directories that have the files of their layer from the cache.
    unpacked: Annotated[tuple[str, ...], msgspec.Meta(max_length=8)] = ()


class Done(msgspec.Struct, frozen=True, tag_field="type", tag="done"):
    id: int
    result: msgspec.Raw = msgspec.Raw(b"null")


class Failed(msgspec.Struct, frozen=True, tag_field="type", tag="failed"):
    """A request, or what a stream was for."""

    reason: _Reason = ""
    id: int = 0


class Pong(msgspec.Struct, frozen=True, tag_field="type", tag="pong"):
    pass


class Port(msgspec.Struct, frozen=True, tag_field="type", tag="port"):
    """The agent has connected to a port, which waits for a stream with this id."""

    id: int
    number: _PortNumber
    address: str


# Results of requests.


class Ports(msgspec.Struct, frozen=True):
    ports: Annotated[list[_PortNumber], msgspec.Meta(max_length=MAX_PORTS)]


class Programs(msgspec.Struct, frozen=True):
    paths: dict[str, str]


class Existence(msgspec.Struct, frozen=True):
    exists: bool


class Dialed(msgspec.Struct, frozen=True):
    results: dict[str, str]


Message = Hello | Done | Failed | Ended | Pong | Port
Result = TypeVar("Result")
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def decode_message(payload: bytes) -> Message:
    with _protocol_error():
        return _decoder.decode(payload)


def decode_result(message: Done, type: type[Result]) -> Result:
    with _protocol_error():
        return msgspec.json.decode(message.result, type=type)


@contextlib.contextmanager
def _protocol_error() -> Iterator[None]:
    try:
        yield
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a message cannot be read: {error}") from None
