"""Messages that a supervisor sends. Decoding checks every field; unknown fields are ignored."""

from typing import Annotated, Any, Literal

import msgspec

from agentjobs_kubernetes.frames import ProtocolError

VERSION = 1
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
    # Directories that have the files of their layer from the cache.
    unpacked: Annotated[tuple[str, ...], msgspec.Meta(max_length=8)] = ()


class Prepared(msgspec.Struct, frozen=True, tag_field="type", tag="prepared"):
    pass


class Started(msgspec.Struct, frozen=True, tag_field="type", tag="started"):
    pass


class Failed(msgspec.Struct, frozen=True, tag_field="type", tag="failed"):
    """The last request, or a channel, which is then closed."""

    reason: _Reason = ""
    channel: int = 0


class Pong(msgspec.Struct, frozen=True, tag_field="type", tag="pong"):
    pass


class Uploaded(msgspec.Struct, frozen=True, tag_field="type", tag="uploaded"):
    channel: int
    entries: int = 0
    error: _Reason | None = None


class Ports(msgspec.Struct, frozen=True, tag_field="type", tag="ports"):
    ports: Annotated[list[_PortNumber], msgspec.Meta(max_length=MAX_PORTS)]


class Programs(msgspec.Struct, frozen=True, tag_field="type", tag="programs"):
    paths: dict[str, str]


class Existence(msgspec.Struct, frozen=True, tag_field="type", tag="existence"):
    path: str
    exists: bool


class Dialed(msgspec.Struct, frozen=True, tag_field="type", tag="dialed"):
    results: dict[str, str]


Message = (
    Hello
    | Prepared
    | Started
    | Failed
    | Ended
    | Pong
    | Uploaded
    | Ports
    | Programs
    | Existence
    | Dialed
)
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_request_decoder = msgspec.json.Decoder(dict[str, Any])


def decode_message(payload: bytes) -> Message:
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a message cannot be read: {error}") from None


def decode_request(payload: bytes) -> dict[str, Any]:
    """The purpose of a channel that the peer opens."""
    try:
        return _request_decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the request for a channel cannot be read: {error}") from None
