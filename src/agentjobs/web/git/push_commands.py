"""The opening of a push: which refs it would change, read strictly before git sees a byte of it.

Whatever git could read differently from us is refused here, so the check and git agree.
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
# Sideband data is cut well below the 65,520 bytes a pkt-line can hold.
_SIDEBAND_BYTES = 60_000


class MalformedOpening(Exception):
    """Not the opening of a push; the message says what was expected."""


class OpeningTooLarge(MalformedOpening):
    """More ref updates than one push may ask for."""


class RefUpdate(msgspec.Struct, frozen=True):
    name: str
    deletes: bool


class PushOpening(msgspec.Struct, frozen=True):
    """`received` is every byte read so far, which may reach into the pack that follows."""

    updates: tuple[RefUpdate, ...]
    capabilities: frozenset[str]
    received: bytes


class OpeningParser:
    """Fed with the body as it arrives, in pieces of any size."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._at = 0
        self._updates: list[RefUpdate] = []
        self._capabilities: set[str] = set()

    def feed(self, piece: bytes) -> PushOpening | None:
        """The opening once its end (a flush) was seen, None until then."""
        self._received += piece
        while True:
            payload = self._next_payload()
            if self._at > MAX_OPENING_BYTES:
                raise OpeningTooLarge(f"a push may list at most {MAX_OPENING_BYTES} bytes of refs")
            if payload is None:
                return None
            if payload == b"":
                return PushOpening(
                    tuple(self._updates), frozenset(self._capabilities), bytes(self._received)
                )
            self._read(payload)

    def _next_payload(self) -> bytes | None:
        """None when more bytes are needed, empty at the flush."""
        head = bytes(self._received[self._at : self._at + 4])
        if len(head) < 4:
            return None
        if not _LENGTH.fullmatch(head):
            raise MalformedOpening("a pkt-line must begin with four hexadecimal digits")
        length = int(head, 16)
        if length == 0:
            self._at += 4
            return b""
        # 0001 to 0003 have meanings elsewhere in the protocol; an empty line has none at all.
        if length <= 4:
            raise MalformedOpening(f"a pkt-line of length {length} has no place in a push")
        if len(self._received) < self._at + length:
            return None
        payload = bytes(self._received[self._at + 4 : self._at + length])
        self._at += length
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
            raise MalformedOpening("the name of a ref must be UTF-8") from None
        self._updates.append(RefUpdate(name, deletes=not update["new"].strip(b"0")))
        self._capabilities.update(
            (update["capabilities"] or b"").decode("utf-8", "replace").split()
        )


def refusal_report(opening: PushOpening, reasons: dict[str, str]) -> bytes | None:
    """git's own answer when every update is refused; None if the client cannot read it."""
    if not opening.capabilities & {"report-status", "report-status-v2"}:
        return None
    lines = [pkt_line(b"unpack ok\n")]
    for update in opening.updates:
        reason = reasons.get(update.name, "refused together with the others")
        lines.append(pkt_line(f"ng {update.name} {reason}\n".encode()))
    report = b"".join(lines) + b"0000"
    if "side-band-64k" not in opening.capabilities:
        return report
    pieces = (report[at : at + _SIDEBAND_BYTES] for at in range(0, len(report), _SIDEBAND_BYTES))
    return b"".join(pkt_line(b"\x01" + piece) for piece in pieces) + b"0000"


def pkt_line(payload: bytes) -> bytes:
    return b"%04x%s" % (len(payload) + 4, payload)
