"""Parses records of a feed and determines which have changed. Pure; runs in threads.

Most records of a feed are already stored. Their id and time are read first, and only changed
records are parsed completely, which takes thirty times as long.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from agentjobs.advisories.rows import StoredState
from agentjobs_dependencies.advisories.model import Advisory, BadAdvisory, parse_advisory
from agentjobs_dependencies.advisories.sources.source import (
    FeedItem,
    FeedWarning,
    Record,
    parse_time,
)

# The only requirement on an id before the record is parsed completely.
_ID = re.compile(r"[!-~]{1,128}")


class Head(msgspec.Struct, frozen=True):
    id: str
    modified: str


class RecordHeads(msgspec.Struct, frozen=True):
    """Records with their heads; None if the head is invalid, which `read` reports."""

    records: tuple[tuple[Record, Head | None], ...]
    warnings: tuple[FeedWarning, ...]

    @property
    def heads(self) -> list[Head]:
        return [head for _, head in self.records if head is not None]


class Batch(msgspec.Struct, frozen=True):
    """`seen` are the ids in the feed, valid or not; `gone` are ids to delete."""

    changed: tuple[Advisory, ...]
    gone: tuple[str, ...]
    seen: frozenset[str]
    warnings: tuple[FeedWarning, ...]


_decode_head = msgspec.json.Decoder(Head).decode


def read_heads(items: Sequence[FeedItem]) -> RecordHeads:
    records = [(item, _head(item)) for item in items if isinstance(item, Record)]
    warnings = [item for item in items if isinstance(item, FeedWarning)]
    return RecordHeads(tuple(records), tuple(warnings))


def read(heads: RecordHeads, known: Mapping[str, StoredState], ecosystem: str) -> Batch:
    changed: list[Advisory] = []
    gone: list[str] = []
    warnings = list(heads.warnings)
    seen = {id_of_path(warning.path) for warning in warnings}
    for record, head in heads.records:
        if head is not None and not is_changed(head.modified, known.get(head.id), ecosystem):
            seen.add(head.id)
            continue
        try:
            advisory = parse_advisory(record.content)
        except BadAdvisory as error:
            warnings.append(FeedWarning(record.path, str(error)))
            seen.add(id_of_path(record.path))
            continue
        if head is None:
            warnings.append(FeedWarning(record.path, "it has no valid modification time"))
            seen.add(id_of_path(record.path))
        elif advisory is None:
            gone += [head.id] if head.id in known else []
        # A source without folders also has the records of other ecosystems.
        elif any(item.ecosystem == ecosystem for item in advisory.affected):
            changed.append(advisory)
            seen.add(advisory.id)
            warnings += [FeedWarning(record.path, why) for why in advisory.unreadable_ranges()]
        elif head.id in known and known[head.id].feed == ecosystem:
            gone.append(head.id)
    return Batch(tuple(changed), tuple(gone), frozenset(seen), tuple(warnings))


def is_changed(modified: str, known: StoredState | None, feed: str) -> bool:
    """Any difference counts for the feed's own records, only a newer time for those of others."""
    if known is None or not known.is_current_format:
        return True
    if modified == known.modified:
        return False
    return feed == known.feed or _is_older(known.modified, modified)


def newest(times: Sequence[str], before: str | None) -> str | None:
    """The latest time, but never in the future, after which no record would count as new."""
    now = datetime.now(UTC)
    moments = [parsed for text in (*times, before or "") if (parsed := parse_time(text))]
    return min(max(moments), now).isoformat() if moments else None


def id_of_path(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")


def _head(record: Record) -> Head | None:
    try:
        head = _decode_head(record.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return head if _ID.fullmatch(head.id) and parse_time(head.modified) else None


def _is_older(time: str, other: str) -> bool:
    first, second = parse_time(time), parse_time(other)
    return first is not None and second is not None and first < second
