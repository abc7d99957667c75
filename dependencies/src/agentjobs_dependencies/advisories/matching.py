"""Decides whether an advisory affects a version of a package, and lists fixed versions."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter

import msgspec

from agentjobs_dependencies.advisories.model import Advisory, Affected
from agentjobs_dependencies.advisories.ranges import Span, build_spans
from agentjobs_dependencies.versions.order import Key, version_key

Package = tuple[str, str]


def affects(advisory: Advisory, ecosystem: str, name: str, version: str) -> bool:
    """`name` must be normalized by `package_name`."""
    key = version_key(ecosystem, version)
    for affected in advisory.affected:
        if (
            affected.name == name
            and affected.ecosystem == ecosystem
            and _parse(affected).contains(version, key)
        ):
            return True
    return False


def fixed_versions(advisory: Advisory, ecosystem: str, name: str) -> tuple[str, ...]:
    """The versions that the record calls fixed, lowest first; another range may affect one."""
    fixed = {
        event.version: key
        for affected in _find_affected(advisory, ecosystem, name)
        for version_range in affected.ranges
        for event in version_range.events
        if event.kind == "fixed" and (key := version_key(ecosystem, event.version)) is not None
    }
    return tuple(sorted(fixed, key=fixed.__getitem__) if len(fixed) > 1 else fixed)


def describe_affected(
    advisory: Advisory, ecosystem: str, name: str, max_length: int | None = None
) -> str:
    """Formats ranges as `< 1.26.17 or >= 2.0.0, < 2.0.6`, truncated to `max_length`."""
    affected = _find_affected(advisory, ecosystem, name)
    spans = [span for item in affected for span in _parse(item).spans]
    if len(spans) > 1:
        spans.sort(key=attrgetter("order"))
    ranges = dict.fromkeys([str(span) for span in spans])
    text = " or ".join([*ranges, *[version for item in affected for version in item.versions]])
    if max_length is None or len(text) <= max_length:
        return text
    return text[:max_length].rpartition(" or ")[0] + " or …"


def by_package(
    advisories: Iterable[Advisory], packages: Container[Package]
) -> Mapping[Package, list[Advisory]]:
    chunk_ids: dict[Package, list[Advisory]] = defaultdict(list)
    for advisory in advisories:
        for affected in advisory.affected:
            package = (affected.ecosystem, affected.name)
            if package not in packages:
                continue
            known = chunk_ids[package]
            # Many records mention a package several times in a row.
            if not known or known[-1] is not advisory:
                known.append(advisory)
    return chunk_ids


def _find_affected(advisory: Advisory, ecosystem: str, name: str) -> list[Affected]:
    return [item for item in advisory.affected if item.name == name and item.ecosystem == ecosystem]


class _Versions(msgspec.Struct, frozen=True, gc=False):
    spans: tuple[Span, ...]
    texts: frozenset[str] = frozenset()
    keys: frozenset[Key] = frozenset()

    def contains(self, text: str, key: Key | None) -> bool:
        for span in self.spans:
            if span.contains(key):
                return True
        return text in self.texts or (key is not None and key in self.keys)


# Choosing a fix compares the same few records with every version of a package.
@lru_cache(maxsize=8192)
def _parse(affected: Affected) -> _Versions:
    spans = build_spans(affected.ecosystem, affected.ranges)
    if not affected.versions:
        return _Versions(spans)
    keys = [version_key(affected.ecosystem, text) for text in affected.versions]
    known = frozenset([key for key in keys if key is not None])
    return _Versions(spans, frozenset(affected.versions), known)
