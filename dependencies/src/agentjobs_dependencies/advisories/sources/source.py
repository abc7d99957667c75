"""The protocol of advisory sources, their errors, and functions they share."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

MAX_RECORD_BYTES = 4 * 1024**2
MAX_ARCHIVE_BYTES = 2 * 1024**3
# Four times the change list of the largest ecosystem.
MAX_LIST_BYTES = 64 * 1024**2
BATCH_RECORDS = 200
_BATCH_BYTES = 8 * 1024**2


class SourceError(Exception):
    """The source cannot be used now; the message is for the operator. Stored data stays in use."""


class SourceNotFound(SourceError):
    """The source is available, but does not have the requested part."""


class FeedWarning(msgspec.Struct, frozen=True):
    """A part of a feed that was left out, and the reason."""

    path: str
    reason: str


class Record(NamedTuple):
    path: str
    content: bytes


FeedItem = Record | FeedWarning


class FullFeed(NamedTuple):
    """All records of an ecosystem. `revision` changes whenever they do.

    `batches` is None if the revision is the one that the caller knows.
    """

    revision: str | None
    total: int | None = None
    batches: AsyncIterator[list[FeedItem]] | None = None


class Source(Protocol):
    """`name` identifies the source and has no credentials."""

    @property
    def name(self) -> str: ...

    def full_feed(
        self, ecosystem: str, known_revision: str | None
    ) -> AbstractAsyncContextManager[FullFeed]:
        """Raises SourceError, even while the batches are read."""

    async def changed_since(
        self, ecosystem: str, since: datetime, limit: int
    ) -> Sequence[str] | None:
        """Ids of changed records; None if there is no change list or more than `limit` changes."""

    def records(self, ecosystem: str, ids: Sequence[str]) -> AsyncIterator[list[FeedItem]]:
        """Raises SourceNotFound if a record is missing, so that the change list is unusable."""


def batch_items(items: Iterator[FeedItem]) -> Iterator[list[FeedItem]]:
    """Batches limited in number and size, so that none takes much memory."""
    batch: list[FeedItem] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item.content) if isinstance(item, Record) else 0
        if len(batch) >= BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_changed_ids(lines: Iterator[str], since: datetime, limit: int) -> list[str] | None:
    """The ids of a change list, newest first, until `since`; None if there are too many."""
    ids = []
    for line in lines:
        time, _, name = line.strip().partition(",")
        changed_at = parse_time(time)
        if changed_at is None or not name:
            continue
        if changed_at < since:
            break
        ids.append(name.rpartition("/")[2])
        if len(ids) > limit:
            return None
    return ids


def parse_time(text: str) -> datetime | None:
    """None for an invalid time."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def chunk_ids(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(ids)
    while group := list(islice(rest, size)):
        yield group


# Called with the number of records read so far, and the total if it is known.
OnProgress = Callable[[int, int | None], None]
