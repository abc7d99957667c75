"""What every source of advisories gives, and the ways in which it can fail."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

MAX_RECORD_BYTES = 4 * 1024**2
MAX_ARCHIVE_BYTES = 2 * 1024**3
# The list of changes of the largest ecosystem is a quarter of this.
MAX_LIST_BYTES = 64 * 1024**2
BATCH_RECORDS = 200
_BATCH_BYTES = 8 * 1024**2


class SourceError(Exception):
    """The source cannot be used now, in words for the operator; what is stored stays in use."""


class SourceNotFound(SourceError):
    """The source is there, but not this part of it."""


class FeedWarning(msgspec.Struct, frozen=True):
    """A part of a feed that was left out, and why."""

    path: str
    reason: str


class Record(NamedTuple):
    path: str
    content: bytes


Piece = Record | FeedWarning


class Everything(NamedTuple):
    """All records of an ecosystem. `mark` changes whenever they do.

    Without `batches` they are those that had the mark which the caller knows.
    """

    mark: str | None
    total: int | None = None
    batches: AsyncIterator[list[Piece]] | None = None


class Source(Protocol):
    """`name` tells sources apart and may be shown: it holds no credentials."""

    @property
    def name(self) -> str: ...

    def everything(
        self, ecosystem: str, known_mark: str | None
    ) -> AbstractAsyncContextManager[Everything]:
        """Raises SourceError, also while the batches are read."""

    async def changed_since(
        self, ecosystem: str, since: datetime, most: int
    ) -> Sequence[str] | None:
        """Identifiers of records; None: there is no list of changes, or there are too many."""

    def records(self, ecosystem: str, ids: Sequence[str]) -> AsyncIterator[list[Piece]]:
        """Raises SourceNotFound if one is missing: then the list of changes is of no use."""


def in_batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Small ones, so that neither a batch of large records nor one of many takes much memory."""
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.content) if isinstance(piece, Record) else 0
        if len(batch) >= BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def changed_ids(lines: Iterator[str], since: datetime, most: int) -> list[str] | None:
    """Of a list of changes, newest first: identifiers down to `since`; None if there are more."""
    found = []
    for line in lines:
        time, _, name = line.strip().partition(",")
        changed_at = moment(time)
        if changed_at is None or not name:
            continue
        if changed_at < since:
            break
        found.append(name.rpartition("/")[2])
        if len(found) > most:
            return None
    return found


def moment(text: str) -> datetime | None:
    """None for what is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def grouped(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(ids)
    while group := list(islice(rest, size)):
        yield group


# Called with how many records were read so far, and of how many if that is known.
Note = Callable[[int, int | None], None]
