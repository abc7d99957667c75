"""What matching needs of an advisory, and how it is read from a record in the form of OSV.

Knows not where records come from.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from agentjobs.advisories.ranges import AffectedRange, Event, RangeKind, spans_of
from agentjobs.advisories.versions import version_key
from agentjobs.settings.registries import ECOSYSTEMS

__all__ = [
    "Advisory",
    "Affected",
    "AffectedRange",
    "BadAdvisory",
    "Event",
    "Rating",
    "package_name",
    "parse_advisory",
]

# Identifiers become parts of addresses, file names and pages.
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_SUMMARY_LENGTH = 300


class BadAdvisory(Exception):
    """The record is not one that can be read; the message says what is wrong with it."""


class Affected(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A package, its name as `package_name` gives it, and which of its versions have the fault.

    `versions` are those that no range holds: records list thousands that their ranges hold too.
    """

    ecosystem: str
    name: str
    ranges: tuple[AffectedRange, ...] = ()
    versions: tuple[str, ...] = ()


class Rating(msgspec.Struct, frozen=True, gc=False):
    """`kind` is CVSS_V4, CVSS_V3 or CVSS_V2; the vector is as the record has it, perhaps broken."""

    kind: str
    vector: str


class Advisory(msgspec.Struct, frozen=True, gc=False):
    """`label` is the word that the database itself chose for the severity."""

    id: str
    modified: str
    affected: tuple[Affected, ...]
    aliases: tuple[str, ...] = ()
    summary: str = ""
    published: str = ""
    ratings: tuple[Rating, ...] = ()
    label: str | None = None
    url: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Everything it is known by: advisories that share a name are about the same fault."""
        return frozenset((self.id, *self.aliases))


def parse_advisory(record: bytes | Mapping[str, Any]) -> Advisory | None:
    """None where nothing is to be matched: withdrawn, informational, or no package that we know."""
    found = _decode(record)
    if not _IDENTIFIER.fullmatch(found.id):
        raise BadAdvisory(f"its id {found.id[:80]!r} is no identifier")
    affected = tuple(_affected(found))
    if found.withdrawn or not affected:
        return None
    return Advisory(
        id=found.id,
        modified=found.modified,
        published=found.published or "",
        affected=affected,
        aliases=_aliases(found),
        summary=_summary(found),
        ratings=tuple(_ratings(found)),
        label=found.database_specific.severity_label if found.database_specific else None,
        url=f"https://osv.dev/vulnerability/{found.id}",
    )


def package_name(ecosystem: str, name: str) -> str:
    """The one spelling of a name where the ecosystem takes several for the same package."""
    if ecosystem == "PyPI":
        return canonicalize_name(name)
    return name.lower() if ecosystem == "Packagist" else name


class _Specific(msgspec.Struct):
    """What only some databases say, so it may be of any type."""

    severity: Any = None
    informational: Any = None
    last_known_affected_version_range: Any = None

    @property
    def severity_label(self) -> str | None:
        return self.severity[:40] if isinstance(self.severity, str) else None


class _Package(msgspec.Struct):
    ecosystem: str
    name: str


class _Event(msgspec.Struct):
    introduced: str | None = None
    fixed: str | None = None
    last_affected: str | None = None
    limit: str | None = None


class _Range(msgspec.Struct):
    type: str
    events: list[_Event] = []


class _Severity(msgspec.Struct):
    type: str
    score: str


class _Affected(msgspec.Struct):
    package: _Package | None = None
    ranges: list[_Range] | None = None
    versions: list[str] | None = None
    severity: list[_Severity] | None = None
    database_specific: _Specific | None = None


class _Record(msgspec.Struct):
    id: str
    modified: str
    published: str | None = None
    withdrawn: str | None = None
    aliases: list[str] | None = None
    summary: str | None = None
    details: str | None = None
    severity: list[_Severity] | None = None
    affected: list[_Affected] | None = None
    database_specific: _Specific | None = None


_DECODER = msgspec.json.Decoder(_Record)


def _decode(record: bytes | Mapping[str, Any]) -> _Record:
    try:
        if isinstance(record, bytes):
            return _DECODER.decode(record)
        return msgspec.convert(record, _Record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadAdvisory(f"not a record in the form of OSV: {error}") from error
    except RecursionError:
        raise BadAdvisory("not a record in the form of OSV: nested too deeply") from None


def _affected(found: _Record) -> Iterator[Affected]:
    for one in found.affected or ():
        specific = one.database_specific or _Specific()
        if one.package is None or specific.informational:
            continue
        # What follows a colon is a registry beside the ecosystem's own; its rules are the same.
        ecosystem = one.package.ecosystem.partition(":")[0]
        if ecosystem not in ECOSYSTEMS:
            continue
        ranges = tuple(_ranges(one.ranges or (), specific.last_known_affected_version_range))
        versions = _listed(ecosystem, ranges, one.versions or ())
        if ranges or versions:
            yield Affected(ecosystem, package_name(ecosystem, one.package.name), ranges, versions)


def _ranges(ranges: Sequence[_Range], last_known: object) -> Iterator[AffectedRange]:
    # Commits (GIT) are of no use where only versions are known.
    of_versions = [found for found in ranges if found.type in ("SEMVER", "ECOSYSTEM")]
    for found in of_versions:
        events = [event for entry in found.events for event in _events(entry)]
        if len(of_versions) == 1:
            events.extend(_last_known(last_known))
        if events:
            kind: RangeKind = "SEMVER" if found.type == "SEMVER" else "ECOSYSTEM"
            yield AffectedRange(kind, tuple(events))


def _last_known(text: object) -> Iterator[Event]:
    """GitHub's database puts here where a range ends if its fix is in a later one, or nowhere."""
    if isinstance(text, str) and (found := re.fullmatch(r"(<=?) *([^\s,]+)", text)):
        yield Event("limit" if found[1] == "<" else "last_affected", found[2])


def _listed(
    ecosystem: str, ranges: tuple[AffectedRange, ...], versions: Sequence[str]
) -> tuple[str, ...]:
    spans = spans_of(ecosystem, ranges) if versions else ()
    keyed = ((version, version_key(ecosystem, version)) for version in versions)
    return tuple(text for text, key in keyed if not any(span.holds(key) for span in spans))


def _events(entry: _Event) -> Iterator[Event]:
    if entry.introduced is not None:
        yield Event("introduced", entry.introduced)
    if entry.fixed is not None:
        yield Event("fixed", entry.fixed)
    if entry.last_affected is not None:
        yield Event("last_affected", entry.last_affected)
    if entry.limit not in (None, "*"):
        yield Event("limit", str(entry.limit))


def _aliases(found: _Record) -> tuple[str, ...]:
    known = dict.fromkeys(a for a in found.aliases or () if _IDENTIFIER.fullmatch(a))
    known.pop(found.id, None)
    return tuple(known)


def _summary(found: _Record) -> str:
    """One line: some databases have only a long text, of which the first line must do."""
    text = found.summary or (found.details or "").strip().partition("\n")[0]
    line = " ".join(text[: 4 * _SUMMARY_LENGTH].split())
    return line if len(line) <= _SUMMARY_LENGTH else line[: _SUMMARY_LENGTH - 1] + "…"


def _ratings(found: _Record) -> Iterator[Rating]:
    said = list(found.severity or ())
    for one in found.affected or ():
        said.extend(one.severity or ())
    kept = {(s.type, s.score[:400]) for s in said if s.type.startswith("CVSS_V")}
    return (Rating(kind, vector) for kind, vector in sorted(kept))
