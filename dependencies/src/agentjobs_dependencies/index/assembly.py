"""Derives languages, dependencies and warnings from the index of a commit. Pure."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs_dependencies.combine import Combined, combine
from agentjobs_dependencies.formats.maven.published import PublishedPoms
from agentjobs_dependencies.imports.external_names import (
    ExternalNames,
    find_complete_families,
    find_external_names,
)
from agentjobs_dependencies.index.commit_index import CommitIndex
from agentjobs_dependencies.languages import LanguageLines
from agentjobs_dependencies.model import Dependency, IndexWarning

MAX_WARNINGS = 200
MAX_NAME_CHARACTERS = 1_000


def list_languages(index: CommitIndex) -> tuple[LanguageLines, ...]:
    """Most lines first; binary files, prose and data have no language."""
    rows = (LanguageLines(name, *sums) for name, sums in index.languages.items() if sums[0])
    return tuple(sorted(rows, key=lambda row: (-row.lines, row.language)))


def combine_dependencies(index: CommitIndex, published: PublishedPoms | None = None) -> Combined:
    combined = combine(index.manifests, published)
    storable = [package for package in combined.dependencies if _is_storable(package)]
    warnings = list(combined.warnings)
    if invalid := len(combined.dependencies) - len(storable):
        warnings.append(IndexWarning("", f"{invalid} packages with invalid names are left out"))
    return Combined(tuple(storable), tuple(warnings))


def collect_external_names(index: CommitIndex) -> ExternalNames:
    languages = [name for name, (files, _) in index.languages.items() if files]
    return ExternalNames(
        find_external_names(index.graph), find_complete_families(languages, index.warnings)
    )


def digest_dependencies(dependencies: Sequence[Dependency]) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(dependencies)).hexdigest()


def collect_warnings(
    index: CommitIndex, others: Iterable[IndexWarning]
) -> tuple[IndexWarning, ...]:
    """At most MAX_WARNINGS distinct warnings, and one that counts the rest."""
    own = (IndexWarning(path, reason) for path, reason in sorted(index.warnings.items()))
    distinct = list(dict.fromkeys([*own, *others]))
    if len(distinct) <= MAX_WARNINGS:
        return tuple(distinct)
    rest = len(distinct) - MAX_WARNINGS
    return (*distinct[:MAX_WARNINGS], IndexWarning("", f"and {rest} more"))


def _is_storable(package: Dependency) -> bool:
    """True if all texts are printable and not too long."""
    texts = (package.name, package.version or "", package.requirement, *package.parents)
    return bool(package.name) and all(
        len(text) <= MAX_NAME_CHARACTERS and text.isprintable() for text in texts
    )
