"""Ranges of versions: from the events of a record, in any order, to spans that hold versions.

Every range is read by the rules of its ecosystem, SEMVER ones too: those rules decide what a
package manager installs.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Literal

import msgspec

from agentjobs.advisories.versions import Key, version_key

EventKind = Literal["introduced", "fixed", "last_affected", "limit"]
RangeKind = Literal["SEMVER", "ECOSYSTEM"]


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: EventKind
    version: str


class AffectedRange(msgspec.Struct, frozen=True, gc=False):
    """Events in the order of the record, which need not be that of their versions."""

    kind: RangeKind
    events: tuple[Event, ...]


class Span(msgspec.Struct, frozen=True, gc=False):
    """From `low` (None: the very first) up to `high` (None: for ever), in it or just before.

    The texts are what the record calls these two.
    """

    low: Key | None
    high: Key | None
    includes_high: bool = False
    low_text: str = ""
    high_text: str = ""

    def holds(self, key: Key | None) -> bool:
        """Of what is no version only one thing is known: that it is one of all."""
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


# An event: where it is (None: the very beginning), what it is, how the record calls that version.
_At = tuple[Key | None, EventKind, str]


def spans_of(ecosystem: str, ranges: Iterable[AffectedRange]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for one in ranges:
        _add_spans(spans, _in_order(ecosystem, one.events))
    return tuple(spans)


def _add_spans(spans: list[Span], events: Sequence[_At]) -> None:
    opened: _At | None = None
    ended: Key | None = None
    for event in events:
        key, kind, text = event
        if kind == "introduced" and opened is None and key is not None and key == ended:
            # Its end stands before it in the record: this one version.
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


def _in_order(ecosystem: str, events: Sequence[Event]) -> list[_At]:
    """By version; those at one version stay in the record's order: only that tells what was meant.

    An event at what is no version says nothing.
    """
    beginning: list[_At] = []
    later: list[_At] = []
    limited = False
    for event in events:
        text, kind = event.version, event.kind
        limited = limited or kind == "limit"
        if text == "0" and kind == "introduced":
            beginning.append((None, kind, text))
        elif (key := version_key(ecosystem, text)) is not None:
            later.append((key, kind, text))
    if len(later) > 1:
        later.sort(key=itemgetter(0))
    found = beginning + later
    return _cut(found) if limited else found


def _cut(events: list[_At]) -> list[_At]:
    """Nothing is affected from the last limit on, as if that were a fix and all ended there."""
    limits = [position for position, (_, kind, _) in enumerate(events) if kind == "limit"]
    if not limits:
        return events
    key, _, text = events[limits[-1]]
    before = [event for event in events[: limits[-1]] if event[1] != "limit"]
    return [*before, (key, "fixed", text)]
