"""The parts of an advisory that matching needs, and parsing them from OSV records."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from agentjobs_dependencies.advisories.ranges import (
    AffectedRange,
    Event,
    RangeKind,
    build_spans,
    unreadable_event,
)
from agentjobs_dependencies.advisories.texts import AdvisoryText, parse_text
from agentjobs_dependencies.versions.order import ECOSYSTEMS, version_key

# Identifiers become parts of URLs, file names and pages.
# Comparisons of listed versions with ranges: more than any record needs, and about 0.2 seconds.
_MAX_COMPARISONS = 1_000_000
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
# GitHub accepts 1,024 characters.
_SUMMARY_LENGTH = 2_000
# The databases of osv.dev about packages; other ids have no page there.
_OSV_PREFIXES = ("GHSA-", "GO-", "MAL-", "OSV-", "PSF-", "PYSEC-", "RUSTSEC-")


class BadAdvisory(Exception):
    """The record is invalid; the message says why."""


class Affected(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The affected versions of a package, whose name is normalized by `package_name`.

    `versions` are only those outside of all ranges: records also list thousands inside them.
    """

    ecosystem: str
    name: str
    ranges: tuple[AffectedRange, ...] = ()
    versions: tuple[str, ...] = ()


class Rating(msgspec.Struct, frozen=True, gc=False):
    """`kind` is CVSS_V4, CVSS_V3 or CVSS_V2; `vector` may be invalid."""

    kind: str
    vector: str


class Advisory(msgspec.Struct, frozen=True, gc=False):
    """`label` is the database's own name for the severity. `text` is set while a record is read
    from its source; it is stored apart."""

    id: str
    modified: str
    affected: tuple[Affected, ...]
    aliases: tuple[str, ...] = ()
    summary: str = ""
    published: str = ""
    ratings: tuple[Rating, ...] = ()
    label: str | None = None
    url: str = ""
    text: AdvisoryText | msgspec.UnsetType = msgspec.UNSET

    def unreadable_ranges(self) -> Iterator[str]:
        """What is wrong with each range that matches nothing because of an invalid version."""
        for item in self.affected:
            for version_range in item.ranges:
                event = unreadable_event(item.ecosystem, version_range)
                if event is not None:
                    yield (
                        f"a range of {item.name} is unreadable and matches nothing: "
                        f"{event.kind} {event.version[:80]!r} is not a valid version"
                    )

    @property
    def names(self) -> frozenset[str]:
        """The id and aliases; records that share a name are about the same vulnerability."""
        return frozenset((self.id, *self.aliases))


def parse_advisory(record: bytes | Mapping[str, Any]) -> Advisory | None:
    """None for a record that is withdrawn, informational or about no supported ecosystem."""
    parsed = _decode(record)
    if not _IDENTIFIER.fullmatch(parsed.id):
        raise BadAdvisory(f"invalid id {parsed.id[:80]!r}")
    affected = tuple(_parse_affected(parsed))
    if parsed.withdrawn or not affected:
        return None
    weaknesses = parsed.database_specific.cwe_ids if parsed.database_specific else None
    text = parse_text(parsed.details, parsed.references, weaknesses)
    return Advisory(
        id=parsed.id,
        modified=parsed.modified,
        published=parsed.published or "",
        affected=affected,
        aliases=_aliases(parsed),
        summary=_summary(parsed),
        ratings=tuple(_ratings(parsed)),
        label=parsed.database_specific.severity_label if parsed.database_specific else None,
        url=_url(parsed.id, text),
        text=text or msgspec.UNSET,
    )


def package_name(ecosystem: str, name: str) -> str:
    """The normalized name, if the ecosystem allows several spellings."""
    if ecosystem == "PyPI":
        return canonicalize_name(name)
    return name.lower() if ecosystem == "Packagist" else name


class _Specific(msgspec.Struct):
    """Fields that only some databases have, so they may be of any type."""

    severity: Any = None
    informational: Any = None
    last_known_affected_version_range: Any = None
    cwe_ids: Any = None

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
    # Any type is accepted: a record is useful without its references.
    references: Any = None
    affected: list[_Affected] | None = None
    database_specific: _Specific | None = None


_DECODER = msgspec.json.Decoder(_Record)


def _decode(record: bytes | Mapping[str, Any]) -> _Record:
    try:
        if isinstance(record, bytes):
            return _DECODER.decode(record)
        return msgspec.convert(record, _Record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadAdvisory(f"not a valid OSV record: {error}") from error
    except RecursionError:
        raise BadAdvisory("not a valid OSV record: nested too deeply") from None


def _parse_affected(parsed: _Record) -> Iterator[Affected]:
    for item in parsed.affected or ():
        specific = item.database_specific or _Specific()
        if item.package is None or specific.informational:
            continue
        # The part after a colon names another registry with the same rules.
        ecosystem = item.package.ecosystem.partition(":")[0]
        if ecosystem not in ECOSYSTEMS:
            continue
        ranges = tuple(_ranges(item.ranges or (), specific.last_known_affected_version_range))
        versions = _versions_outside(ecosystem, ranges, item.versions or ())
        if ranges or versions:
            yield Affected(ecosystem, package_name(ecosystem, item.package.name), ranges, versions)


def _ranges(ranges: Sequence[_Range], last_known: object) -> Iterator[AffectedRange]:
    # GIT ranges list commits, which cannot be compared with versions.
    version_ranges = [item for item in ranges if item.type in ("SEMVER", "ECOSYSTEM")]
    for item in version_ranges:
        events = [event for entry in item.events for event in _events(entry)]
        if len(version_ranges) == 1:
            events.extend(_last_known(last_known))
        if events:
            kind: RangeKind = "SEMVER" if item.type == "SEMVER" else "ECOSYSTEM"
            yield AffectedRange(kind, tuple(events))


def _last_known(text: object) -> Iterator[Event]:
    """GitHub's field for the end of a range without a fix of its own."""
    if isinstance(text, str) and (match := re.fullmatch(r"(<=?) *([^\s,]+)", text)):
        yield Event("limit" if match[1] == "<" else "last_affected", match[2])


def _versions_outside(
    ecosystem: str, ranges: tuple[AffectedRange, ...], versions: Sequence[str]
) -> tuple[str, ...]:
    spans = build_spans(ecosystem, ranges) if versions else ()
    if len(spans) * len(versions) > _MAX_COMPARISONS:
        # Leaving out versions of the ranges only saves space.
        return tuple(versions)
    keyed = ((version, version_key(ecosystem, version)) for version in versions)
    return tuple(text for text, key in keyed if not any(span.contains(key) for span in spans))


def _events(entry: _Event) -> Iterator[Event]:
    if entry.introduced is not None:
        yield Event("introduced", entry.introduced)
    if entry.fixed is not None:
        yield Event("fixed", entry.fixed)
    if entry.last_affected is not None:
        yield Event("last_affected", entry.last_affected)
    if entry.limit not in (None, "*"):
        yield Event("limit", str(entry.limit))


def _aliases(parsed: _Record) -> tuple[str, ...]:
    known = dict.fromkeys(a for a in parsed.aliases or () if _IDENTIFIER.fullmatch(a))
    known.pop(parsed.id, None)
    return tuple(known)


def _url(identifier: str, text: AdvisoryText | None) -> str:
    """A page about the vulnerability; empty if none is known."""
    if identifier.startswith(_OSV_PREFIXES):
        return f"https://osv.dev/vulnerability/{identifier}"
    references = [item for item in text.references if item.url.startswith("https:")] if text else []
    references.sort(key=lambda item: item.kind != "ADVISORY")
    return references[0].url if references else ""


def _summary(parsed: _Record) -> str:
    """One line: the summary, or the first line of the details."""
    text = parsed.summary or (parsed.details or "").strip().partition("\n")[0]
    line = " ".join(text[: 4 * _SUMMARY_LENGTH].split())
    return line if len(line) <= _SUMMARY_LENGTH else line[: _SUMMARY_LENGTH - 1] + "…"


def _ratings(parsed: _Record) -> Iterator[Rating]:
    severities = list(parsed.severity or ())
    for item in parsed.affected or ():
        severities.extend(item.severity or ())
    vectors = {(s.type, s.score[:400]) for s in severities if s.type.startswith("CVSS_V")}
    return (Rating(kind, vector) for kind, vector in sorted(vectors))
