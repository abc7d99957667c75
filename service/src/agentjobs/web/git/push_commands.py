"""Parses the ref updates at the start of a push, before git reads any of it.

Strict: anything git might interpret differently is rejected, so that this check and git agree.
"""

import re

import msgspec

MAX_OPENING_BYTES = 1024 * 1024

_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")
_OID = rb"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_SHALLOW = re.compile(rb"shallow " + _OID + rb"\n?")
_UPDATE = re.compile(
    rb"(?P<old>" + _OID + rb") (?P<new>" + _OID + rb") (?P<ref>[^\x00-\x20\x7f]+)"
    rb"(?:\x00(?P<capabilities>[^\x00\n]*))?\n?"
)
# Well below the 65,520 bytes a pkt-line can hold.
_SIDEBAND_BYTES = 60_000


class MalformedOpening(Exception):
    """The body is not a push; the message says what was expected."""


class OpeningTooLarge(MalformedOpening):
    """The push has too many ref updates."""


class RefUpdate(msgspec.Struct, frozen=True):
    name: str
    deletes: bool


class PushOpening(msgspec.Struct, frozen=True):
    """`received` holds all bytes read so far, possibly including part of the pack."""

    updates: tuple[RefUpdate, ...]
    capabilities: frozenset[str]
    received: bytes


class OpeningParser:
    """An incremental parser."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._position = 0
        self._updates: list[RefUpdate] = []
        self._capabilities: set[str] = set()

    def feed(self, piece: bytes) -> PushOpening | None:
        """The ref updates once the flush packet arrived; None until then."""
        self._received += piece
        while True:
            payload = self._next_payload()
            if self._position > MAX_OPENING_BYTES:
                raise OpeningTooLarge(f"a push may list at most {MAX_OPENING_BYTES} bytes of refs")
            if payload is None:
                return None
            if payload == b"":
                return PushOpening(
                    tuple(self._updates), frozenset(self._capabilities), bytes(self._received)
                )
            self._read(payload)

    def _next_payload(self) -> bytes | None:
        """None if more bytes are needed; empty at the flush packet."""
        head = bytes(self._received[self._position : self._position + 4])
        if len(head) < 4:
            return None
        if not _LENGTH.fullmatch(head):
            raise MalformedOpening("a pkt-line must begin with four hexadecimal digits")
        length = int(head, 16)
        if length == 0:
            self._position += 4
            return b""
        # 0001 to 0003 are special packets of protocol v2, and 0004 would be empty.
        if length <= 4:
            raise MalformedOpening(f"a pkt-line of length {length} is not allowed in a push")
        if len(self._received) < self._position + length:
            return None
        payload = bytes(self._received[self._position + 4 : self._position + length])
        self._position += length
        return payload

    def _read(self, payload: bytes) -> None:
        if not self._updates and _SHALLOW.fullmatch(payload):
            return
        update = _UPDATE.fullmatch(payload)
        if update is None:
            raise MalformedOpening("expected a line of the form `old new ref`")
        try:
            name = update["ref"].decode()
        except UnicodeDecodeError:
            raise MalformedOpening("ref names must be UTF-8") from None
        self._updates.append(RefUpdate(name, deletes=not update["new"].strip(b"0")))
        self._capabilities.update(
            (update["capabilities"] or b"").decode("utf-8", "replace").split()
        )


def rejection_report(opening: PushOpening, reasons: dict[str, str]) -> bytes | None:
    """A status report that rejects every update; None if the client cannot read it."""
    if not opening.capabilities & {"report-status", "report-status-v2"}:
        return None
    lines = [pkt_line(b"unpack ok\n")]
    for update in opening.updates:
        reason = reasons.get(update.name, "rejected together with the other updates")
        lines.append(pkt_line(f"ng {update.name} {reason}\n".encode()))
    report = b"".join(lines) + b"0000"
    if "side-band-64k" not in opening.capabilities:
        return report
    pieces = (report[at : at + _SIDEBAND_BYTES] for at in range(0, len(report), _SIDEBAND_BYTES))
    return b"".join(pkt_line(b"\x01" + piece) for piece in pieces) + b"0000"


def pkt_line(payload: bytes) -> bytes:
    return b"%04x%s" % (len(payload) + 4, payload)
