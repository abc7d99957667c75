"""Fixes that the agent `cve-fixer` should make, and their outcome. Edits nothing.

Every module of this directory runs inside the sandbox and imports only the standard library, the
other modules, and packages that the sandbox shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class CannotFix(Exception):
    """Why one fix is not possible, worded for the reader of the pull request."""


@dataclass(frozen=True, slots=True)
class Advisory:
    id: str
    aliases: tuple[str, ...] = ()
    severity: str = "unknown"
    score: float | None = None
    ranges: str = ""
    summary: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version that fixes the package, and the Python, Node.js or Rust versions that it needs."""

    version: str
    requires: str = ""
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fix:
    """Update `package` from `old` to `new` in `manifest` (relative to the root).

    `hashes` belong to the files of `new` ("sha256:…"). `parents` is the path from a direct
    dependency of the project to the one that requires `package`; empty for a direct one.
    `managed_by` is the published parent or BOM that sets `old`, if Maven has it from there.
    """

    ecosystem: str
    manifest: str
    package: str
    old: str
    new: str
    direct: bool = True
    parents: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    registry: str = ""
    advisories: tuple[Advisory, ...] = ()
    why: str = ""
    # The best first; the first one is `new`.
    candidates: tuple[Candidate, ...] = ()
    managed_by: str = ""
    # Groups of files that are installed or resolved together, `manifest` among them. Files of a
    # group that have the package at a vulnerable version have fixes of their own.
    installed_together: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    fix: Fix
    reason: str


@dataclass(slots=True)
class Outcome:
    """The result of the fixes of one manifest; every fix is in `fixed` or in `failed`.

    `changes` are Markdown sentences about edits beyond the version itself, or about remaining
    manual steps; `undo` about what to revert besides the commit; `unproven` about why a result
    could not be proven: the pull request is then a draft.
    """

    fixed: list[Fix] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.fixed += other.fixed
        self.failed += other.failed
        self.changes += other.changes
        self.undo += other.undo
        self.unproven += other.unproven

    def fail(self, fixes: Sequence[Fix], reason: str) -> None:
        self.failed += [Failure(fix, reason) for fix in fixes]


def read_fixes(job: Mapping[str, Any]) -> list[Fix]:
    """The fixes of the job file. Raises KeyError, TypeError or ValueError if malformed."""
    groups = [tuple(group) for group in job.get("installed_together", ())]
    return [_fix(entry, groups) for entry in job.get("fixes", [])]


def _fix(entry: Mapping[str, Any], groups: Sequence[tuple[str, ...]]) -> Fix:
    return Fix(
        ecosystem=entry["ecosystem"],
        manifest=entry["manifest"],
        package=entry["package"],
        old=entry["from"],
        new=entry["to"],
        direct=bool(entry.get("direct", True)),
        parents=tuple(entry.get("parents", ())),
        hashes=tuple(entry.get("hashes", ())),
        registry=entry.get("registry", ""),
        advisories=tuple(_advisory(advisory) for advisory in entry.get("advisories", ())),
        why=entry.get("why", ""),
        managed_by=entry.get("managed_by", ""),
        candidates=tuple(_candidate(candidate) for candidate in entry.get("candidates", ())),
        installed_together=tuple(group for group in groups if entry["manifest"] in group),
    )


def _candidate(entry: Mapping[str, Any]) -> Candidate:
    return Candidate(
        entry["version"], entry.get("requires") or "", tuple(entry.get("hashes") or ())
    )


def _advisory(entry: Mapping[str, Any]) -> Advisory:
    score = entry.get("score")
    return Advisory(
        id=entry["id"],
        aliases=tuple(entry.get("aliases", ())),
        severity=entry.get("severity") or "unknown",
        score=None if score is None else float(score),
        ranges=entry.get("ranges") or "",
        summary=entry.get("summary") or "",
        url=entry.get("url") or "",
    )
