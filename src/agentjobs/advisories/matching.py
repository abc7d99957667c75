"""Whether an advisory is about a package in a version, and which versions end the fault."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter

import msgspec

from agentjobs.advisories.model import Advisory, Affected
from agentjobs.advisories.ranges import Span, spans_of
from agentjobs.advisories.versions import Key, version_key

Package = tuple[str, str]


def affects(advisory: Advisory, ecosystem: str, name: str, version: str) -> bool:
    """`name` is as `package_name` gives it."""
    key = version_key(ecosystem, version)
    for one in advisory.affected:
        if one.name == name and one.ecosystem == ecosystem and _read(one).hold(version, key):
            return True
    return False


def fixed_versions(advisory: Advisory, ecosystem: str, name: str) -> tuple[str, ...]:
    """Those that the record calls fixed, lowest first. Another range of it may still hold one."""
    fixed = {
        event.version: key
        for one in _about(advisory, ecosystem, name)
        for found in one.ranges
        for event in found.events
        if event.kind == "fixed" and (key := version_key(ecosystem, event.version)) is not None
    }
    return tuple(sorted(fixed, key=fixed.__getitem__) if len(fixed) > 1 else fixed)


def describe_affected(
    advisory: Advisory, ecosystem: str, name: str, longest: int | None = None
) -> str:
    """For people: `< 1.26.17 or >= 2.0.0, < 2.0.6`; no longer than they would read."""
    found = _about(advisory, ecosystem, name)
    spans = [span for one in found for span in _read(one).spans]
    if len(spans) > 1:
        spans.sort(key=attrgetter("order"))
    ranges = dict.fromkeys([str(span) for span in spans])
    text = " or ".join([*ranges, *[version for one in found for version in one.versions]])
    if longest is None or len(text) <= longest:
        return text
    return text[:longest].rpartition(" or ")[0] + " or …"


def by_package(
    advisories: Iterable[Advisory], asked_for: Container[Package]
) -> Mapping[Package, list[Advisory]]:
    found: dict[Package, list[Advisory]] = defaultdict(list)
    for advisory in advisories:
        for one in advisory.affected:
            package = (one.ecosystem, one.name)
            if package not in asked_for:
                continue
            known = found[package]
            # Many speak of a package more than once, in a row.
            if not known or known[-1] is not advisory:
                known.append(advisory)
    return found


def _about(advisory: Advisory, ecosystem: str, name: str) -> list[Affected]:
    return [one for one in advisory.affected if one.name == name and one.ecosystem == ecosystem]


class _Versions(msgspec.Struct, frozen=True, gc=False):
    spans: tuple[Span, ...]
    texts: frozenset[str] = frozenset()
    keys: frozenset[Key] = frozenset()

    def hold(self, text: str, key: Key | None) -> bool:
        for span in self.spans:
            if span.holds(key):
                return True
        return text in self.texts or (key is not None and key in self.keys)


# Whoever looks for a fix asks the same few records about every version of a package.
@lru_cache(maxsize=8192)
def _read(affected: Affected) -> _Versions:
    spans = spans_of(affected.ecosystem, affected.ranges)
    if not affected.versions:
        return _Versions(spans)
    keys = [version_key(affected.ecosystem, text) for text in affected.versions]
    known = frozenset([key for key in keys if key is not None])
    return _Versions(spans, frozenset(affected.versions), known)
