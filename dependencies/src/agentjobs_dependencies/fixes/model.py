"""Fixes that the agent `cve-fixer` should make, and their outcome. Edits nothing.

Every module of this directory runs inside the sandbox and imports only the standard library, the
other modules, and packages that the sandbox shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
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
    fixed: tuple[str, ...] = ()


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

    @property
    def location(self) -> tuple[str, str, str]:
        return self.manifest, self.ecosystem, self.package

    @property
    def key(self) -> tuple[str, str, str, str]:
        return *self.location, self.new


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
    return [_read_fix(entry, groups) for entry in job.get("fixes", [])]


def _read_fix(entry: Mapping[str, Any], groups: Sequence[tuple[str, ...]]) -> Fix:
    values = _known_values(Fix, {**entry, "old": entry["from"], "new": entry["to"]})
    for name, kind in (("advisories", Advisory), ("candidates", Candidate)):
        values[name] = tuple(kind(**_known_values(kind, item)) for item in values.get(name, ()))
    together = tuple(group for group in groups if entry["manifest"] in group)
    return Fix(**{**values, "installed_together": together})


def _known_values(kind: type, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of this dataclass; the default replaces null."""
    return {
        field.name: tuple(value) if isinstance(value, list) else value
        for field in fields(kind)
        if (value := entry.get(field.name)) is not None
    }
