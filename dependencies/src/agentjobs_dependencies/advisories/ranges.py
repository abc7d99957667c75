"""Converts the events of a record's version ranges into spans of versions.

Versions are always compared by the rules of the ecosystem, even in SEMVER ranges, because these
rules decide what a package manager installs.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Literal

import msgspec

from agentjobs_dependencies.versions.order import Key, version_key

EventKind = Literal["introduced", "fixed", "last_affected", "limit"]
RangeKind = Literal["SEMVER", "ECOSYSTEM"]


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: EventKind
    version: str


class AffectedRange(msgspec.Struct, frozen=True, gc=False):
    """Events in the order of the record, which may differ from the order of versions."""

    kind: RangeKind
    events: tuple[Event, ...]


class Span(msgspec.Struct, frozen=True, gc=False):
    """Versions from `low` (None: the first) to `high` (None: unlimited), inclusive or exclusive.

    The texts are the record's spellings of both.
    """

    low: Key | None
    high: Key | None
    includes_high: bool = False
    low_text: str = ""
    high_text: str = ""

    def contains(self, key: Key | None) -> bool:
        """An invalid version (None) is only in the span of all versions."""
        low, high = self.low, self.high
        if key is None:
            return low is None and high is None
        if low is not None and key < low:
            return False
        return high is None or bool(key <= high if self.includes_high else key < high)

    @property
    def order(self) -> tuple[bool, Key]:
        return (self.low is not None, self.low)

    def __str__(self) -> str:
        parts = [] if self.low is None else [f">= {self.low_text}"]
        if self.high is not None:
            parts.append(f"{'<=' if self.includes_high else '<'} {self.high_text}")
        return ", ".join(parts) or "all versions"


# An event: its version's key (None: the first version), its kind, the record's spelling.
_KeyedEvent = tuple[Key | None, EventKind, str]


def build_spans(ecosystem: str, ranges: Iterable[AffectedRange]) -> tuple[Span, ...]:
    """Skips unreadable ranges: one without its `fixed` would affect all later versions."""
    spans: list[Span] = []
    for version_range in ranges:
        if unreadable_event(ecosystem, version_range) is None:
            _add_spans(spans, _sort_events(ecosystem, version_range.events))
    return tuple(spans)


def unreadable_event(ecosystem: str, version_range: AffectedRange) -> Event | None:
    """The first event whose version is invalid; None if the range is readable."""
    for event in version_range.events:
        if not _is_beginning(event) and version_key(ecosystem, event.version) is None:
            return event
    return None


def _add_spans(spans: list[Span], events: Sequence[_KeyedEvent]) -> None:
    opened: _KeyedEvent | None = None
    ended: Key | None = None
    for event in events:
        key, kind, text = event
        if kind == "introduced" and opened is None and key is not None and key == ended:
            # The record has the end before the start: only this version is affected.
            spans.append(Span(key, key, True, text, text))
        elif kind == "introduced":
            opened = opened or event
        elif opened:
            spans.append(Span(opened[0], key, kind == "last_affected", opened[2], text))
            opened = None
        elif kind == "last_affected":
            ended = key
    if opened:
        spans.append(Span(opened[0], None, False, opened[2]))


def _sort_events(ecosystem: str, events: Sequence[Event]) -> list[_KeyedEvent]:
    """Sorts by version; events at one version keep the record's order, which is significant."""
    beginning: list[_KeyedEvent] = []
    later: list[_KeyedEvent] = []
    has_limit = False
    for event in events:
        text, kind = event.version, event.kind
        has_limit = has_limit or kind == "limit"
        if _is_beginning(event):
            beginning.append((None, kind, text))
        else:
            later.append((version_key(ecosystem, text), kind, text))
    if len(later) > 1:
        later.sort(key=itemgetter(0))
    ordered = beginning + later
    return _apply_limit(ordered) if has_limit else ordered


def _is_beginning(event: Event) -> bool:
    return event.version == "0" and event.kind == "introduced"


def _apply_limit(events: list[_KeyedEvent]) -> list[_KeyedEvent]:
    """Versions from the last limit on are not affected, as if it were a fix."""
    limits = [position for position, (_, kind, _) in enumerate(events) if kind == "limit"]
    if not limits:
        return events
    key, _, text = events[limits[-1]]
    before = [event for event in events[: limits[-1]] if event[1] != "limit"]
    return [*before, (key, "fixed", text)]
