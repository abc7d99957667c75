"""Makes advisories of records, and says which of them are news. Pure; for threads.

Most records of a feed are known already: their identifier and time are read first, and only what
is news is read whole, which takes thirty times as long.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from agentjobs.advisories.model import Advisory, BadAdvisory, parse_advisory
from agentjobs.advisories.rows import Known
from agentjobs.advisories.sources.source import FeedWarning, Piece, Record, moment

# All that is asked for before a record is read whole.
_ID = re.compile(r"[!-~]{1,128}")


class Head(msgspec.Struct, frozen=True):
    id: str
    modified: str


class Looked(msgspec.Struct, frozen=True):
    """Records with their heads; None where it cannot be read, which `read` will explain."""

    records: tuple[tuple[Record, Head | None], ...]
    warnings: tuple[FeedWarning, ...]

    @property
    def heads(self) -> list[Head]:
        return [head for _, head in self.records if head is not None]


class Batch(msgspec.Struct, frozen=True):
    """`seen` is everything that the feed still has, broken or not; `gone` matches nothing now."""

    changed: tuple[Advisory, ...]
    gone: tuple[str, ...]
    seen: frozenset[str]
    warnings: tuple[FeedWarning, ...]


_decode_head = msgspec.json.Decoder(Head).decode


def look(pieces: Sequence[Piece]) -> Looked:
    records = [(piece, _head(piece)) for piece in pieces if isinstance(piece, Record)]
    warnings = [piece for piece in pieces if isinstance(piece, FeedWarning)]
    return Looked(tuple(records), tuple(warnings))


def read(looked: Looked, known: Mapping[str, Known], ecosystem: str) -> Batch:
    changed: list[Advisory] = []
    gone: list[str] = []
    warnings = list(looked.warnings)
    seen = {id_of_path(warning.path) for warning in warnings}
    for record, head in looked.records:
        if head is not None and not is_news(head.modified, known.get(head.id), ecosystem):
            seen.add(head.id)
            continue
        try:
            advisory = parse_advisory(record.content)
        except BadAdvisory as error:
            warnings.append(FeedWarning(record.path, str(error)))
            seen.add(id_of_path(record.path))
            continue
        if head is None:
            warnings.append(FeedWarning(record.path, "it does not tell when it was changed"))
            seen.add(id_of_path(record.path))
        elif advisory is None:
            gone += [head.id] if head.id in known else []
        # A source without folders gives us the other ecosystems' records, too.
        elif any(one.ecosystem == ecosystem for one in advisory.affected):
            changed.append(advisory)
            seen.add(advisory.id)
        elif head.id in known and known[head.id].feed == ecosystem:
            gone.append(head.id)
    return Batch(tuple(changed), tuple(gone), frozenset(seen), tuple(warnings))


def is_news(modified: str, known: Known | None, feed: str) -> bool:
    """A feed corrects itself in any way; of what another brought, only what is newer counts."""
    if known is None or not known.is_current_format:
        return True
    if modified == known.modified:
        return False
    return feed == known.feed or _is_older(known.modified, modified)


def newest(times: Sequence[str], before: str | None) -> str | None:
    """The latest of them, but never in the future: nothing would be newer for ever."""
    now = datetime.now(UTC)
    moments = [found for text in (*times, before or "") if (found := moment(text))]
    return min(max(moments), now).isoformat() if moments else None


def id_of_path(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")


def _head(record: Record) -> Head | None:
    try:
        head = _decode_head(record.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return head if _ID.fullmatch(head.id) and moment(head.modified) else None


def _is_older(one: str, other: str) -> bool:
    first, second = moment(one), moment(other)
    return first is not None and second is not None and first < second
