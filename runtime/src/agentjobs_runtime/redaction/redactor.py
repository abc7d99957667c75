"""Redacts secrets in a stream of bytes: known values and their parts, and well-known tokens.

The result does not depend on how the stream is split. At most a few dozen bytes are held back, and
only while they could still become a secret.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from agentjobs_runtime.redaction.secret_forms import (
    FRAGMENT_LENGTH,
    MIN_LENGTH,
    encode_forms,
    list_fragments,
)
from agentjobs_runtime.redaction.token_patterns import TOKEN_FORMATS, TokenFormat

REDACTED = b"[redacted]"

_MAX_HEAD_BYTES = 64
_MAX_TERMINATED_BYTES = 16 * 1024
_MAX_TERMINATOR_BYTES = 64
# Every fragment contains an aligned word of 8 bytes, whether words are counted from 0 or from 4.
_WORD_BYTES = 8
_WORD_STEP = FRAGMENT_LENGTH - _WORD_BYTES + 1
_MARKS = tuple((mark, format_.lead) for format_ in TOKEN_FORMATS for mark in format_.marks)
_MAX_FORMAT_BYTES = max(format_.max_bytes for format_ in TOKEN_FORMATS)
_BEGINNINGS = re.compile(
    b"|".join(
        b"(?P<format%d>%s)" % (index, format_.beginning)
        for index, format_ in enumerate(TOKEN_FORMATS)
    )
)
_UNFINISHED = re.compile(
    rb"(?:" + b"|".join(format_.unfinished for format_ in TOKEN_FORMATS) + rb")\Z"
)


class Redactor:
    def __init__(self, values: Iterable[str] = ()) -> None:
        self._rests: dict[bytes, set[bytes]] = {}
        self._fragments: dict[bytes, list[tuple[bytes, int]]] = {}
        self._words: set[int] = set()
        self._parts: set[bytes] = set()
        self._before = b""
        self._held = b""
        self._dropping: _Drop | None = None
        self._add_all(values)

    def add(self, value: str) -> None:
        """Redact this value from now on."""
        self._add_all((value,))

    def feed(self, data: bytes) -> bytes:
        return self._redact(data, is_last=False)

    def end(self) -> bytes:
        """Return what was held back; a value cut off by the end of the stream is redacted.

        The redactor can then be used for a new stream.
        """
        text = self._redact(b"", is_last=True)
        self._before = self._held = b""
        self._dropping = None
        return text

    def _add_all(self, values: Iterable[str]) -> None:
        values = tuple(values)
        for part, offset in list_fragments(values):
            end = offset + FRAGMENT_LENGTH
            self._fragments.setdefault(part[offset:end], []).append((part, end))
            if part not in self._parts:
                self._parts.add(part)
                self._words.update(*(_words(part, start) for start in range(_WORD_BYTES)))
        for form in encode_forms(values):
            rests = self._rests.setdefault(form[:_MAX_HEAD_BYTES], set())
            rests.add(form[_MAX_HEAD_BYTES:])
        # The longest first, so that a shorter value with the same beginning does not match.
        heads = sorted(self._rests, key=len, reverse=True)
        # By their first bytes: a text of possible positions only would be compared to each of them.
        self._heads: dict[bytes, list[bytes]] = {}
        for head in heads:
            self._heads.setdefault(head[:MIN_LENGTH], []).append(head)
        self._marks = (*_MARKS, *((head, 0) for head in heads))
        self._beginnings = {head[:length] for head in heads for length in range(1, len(head))}
        self._longest_beginning = max(map(len, self._beginnings), default=0)

    def _redact(self, data: bytes, *, is_last: bool) -> bytes:
        # The byte before a token decides whether it is one, so one byte is kept.
        buffer = self._before + self._held + data
        at = self._drop(buffer, len(self._before))
        hold_from = self._cut_off_from if is_last else self._hold_from
        hold = hold_from(buffer, at)
        output: list[bytes] = []
        for position in self._positions(buffer, at):
            if position >= hold:
                break
            secret = self._secret_at(buffer, position) if position >= at else None
            if secret is None:
                continue
            output += (buffer[at:position], secret.kept, REDACTED)
            self._dropping = secret.rest
            at = self._drop(buffer, secret.end)
            if at > hold:
                hold = hold_from(buffer, at)
        output.append(buffer[at:hold])
        if is_last and hold < len(buffer):
            output.append(REDACTED)
        self._before, self._held = buffer[max(hold - 1, 0) : hold], buffer[hold:]
        return b"".join(output)

    def _positions(self, buffer: bytes, at: int) -> list[int]:
        """Where a secret may begin. Searching bytes is many times faster than the pattern."""
        positions = set()
        for mark, lead in self._marks:
            position = buffer.find(mark, at)
            while position >= 0:
                positions.add(position - lead)
                position = buffer.find(mark, position + 1)
        for start in (at, at + _WORD_STEP):
            positions.update(self._fragment_positions(buffer, start))
        return sorted(positions)

    def _fragment_positions(self, buffer: bytes, start: int) -> Iterator[int]:
        words = _words(buffer, start)
        if self._words.isdisjoint(words):
            return
        for index, word in enumerate(words):
            if word in self._words:
                position = start + index * _WORD_BYTES
                for at in range(max(position - _WORD_STEP + 1, 0), position + 1):
                    if buffer[at : at + FRAGMENT_LENGTH] in self._fragments:
                        yield at

    def _drop(self, buffer: bytes, at: int) -> int:
        """Skip what still belongs to the secret found last."""
        if self._dropping is not None:
            at = self._dropping.end_in(buffer, at)
            if at < len(buffer):
                self._dropping = None
        return at

    def _secret_at(self, buffer: bytes, position: int) -> "_Secret | None":
        # Not a pattern: every job adds its own values, and compiling takes a millisecond.
        for head in self._heads.get(buffer[position : position + MIN_LENGTH], ()):
            if buffer.startswith(head, position):
                return _Secret(b"", position + len(head), _DropValue(self._rests[head]))
        match = _BEGINNINGS.match(buffer, position)
        if match is None:
            return self._fragment_at(buffer, position)
        index = int((match.lastgroup or "").removeprefix("format"))
        return _Secret(match["kept"] or b"", match.end(), _DropRun(TOKEN_FORMATS[index]))

    def _fragment_at(self, buffer: bytes, position: int) -> "_Secret | None":
        end = position + FRAGMENT_LENGTH
        ends = self._fragments.get(buffer[position:end])
        if ends is None:
            return None
        return _Secret(b"", end, _DropValue(part[offset:] for part, offset in ends))

    def _hold_from(self, buffer: bytes, at: int) -> int:
        """Where the rest of the buffer could be the beginning of a secret."""
        size = len(buffer)
        match = _UNFINISHED.search(buffer, max(at, size - _MAX_FORMAT_BYTES))
        end = match.start() if match else size
        for start in range(max(at, size - FRAGMENT_LENGTH + 1), end):
            if any(buffer[start:] in part for part in self._parts):
                end = start
                break
        return self._value_from(buffer, at, end)

    def _cut_off_from(self, buffer: bytes, at: int) -> int:
        """Where a value begins that the stream ended in, if enough of it would be shown."""
        start = self._value_from(buffer, at, len(buffer))
        return start if len(buffer) - start >= MIN_LENGTH else len(buffer)

    def _value_from(self, buffer: bytes, at: int, end: int) -> int:
        for start in range(max(at, len(buffer) - self._longest_beginning), end):
            if buffer[start:] in self._beginnings:
                return start
        return end


class _Drop(Protocol):
    def end_in(self, buffer: bytes, at: int) -> int:
        """Where the secret ends; the end of the buffer when it may continue."""


class _Secret(NamedTuple):
    """The beginning of a secret up to `end`, of which `kept` is not secret; `rest` follows it."""

    kept: bytes
    end: int
    rest: _Drop


class _DropValue:
    """Follows the values that begin like this, to the end of the longest match."""

    def __init__(self, rests: Iterable[bytes]) -> None:
        self._rests = list(rests)

    def end_in(self, buffer: bytes, at: int) -> int:
        longest = 0
        continuing = []
        for rest in self._rests:
            same = _same_bytes(buffer, at, rest)
            longest = max(longest, same)
            if at + same == len(buffer):
                continuing.append(rest[same:])
        self._rests = continuing
        return at + longest


class _DropRun:
    """Follows the characters of a token; those of a private key only up to its last line."""

    def __init__(self, token_format: TokenFormat) -> None:
        self._format = token_format
        self._tail = b""
        self._left = _MAX_TERMINATED_BYTES

    def end_in(self, buffer: bytes, at: int) -> int:
        run = self._format.run.match(buffer, at)
        end = run.end() if run else at
        return end if self._format.end is None else self._up_to_terminator(buffer, at, end)

    def _up_to_terminator(self, buffer: bytes, at: int, end: int) -> int:
        end = min(end, at + self._left)
        recent = self._tail + buffer[at:end]
        assert self._format.end is not None
        match = self._format.end.search(recent)
        if match is not None:
            self._left = 0
            return at + match.end() - len(self._tail)
        self._left -= end - at
        self._tail = recent[-_MAX_TERMINATOR_BYTES:]
        return end


def _words(data: bytes, start: int) -> "memoryview[int]":
    """Numbers of 8 bytes: comparing these to a set is many times faster than comparing slices."""
    count = max(len(data) - start, 0) // _WORD_BYTES
    return memoryview(data)[start : start + count * _WORD_BYTES].cast("Q")


def _same_bytes(buffer: bytes, at: int, other: bytes) -> int:
    size = min(len(other), len(buffer) - at)
    if buffer.startswith(other[:size], at):
        return size
    return next(index for index in range(size) if buffer[at + index] != other[index])
