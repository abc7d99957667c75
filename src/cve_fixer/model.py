"""What the agent `cve-fixer` is asked for and what came of it. Edits nothing.

Every module of this directory runs inside the sandbox: the standard library, and each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class CannotFix(Exception):
    """Why one fix is not possible, in words for the pull request's reader."""


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
class Fix:
    """`package` at version `old` in `manifest` (relative to the root) shall become `new`.

    `hashes` are those of the files of `new` ("sha256:…"). `parents` leads from a direct dependency
    of the project down to the one that asks for `package`; empty for a direct one.
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


@dataclass(frozen=True, slots=True)
class Failure:
    fix: Fix
    reason: str


@dataclass(slots=True)
class Outcome:
    """What became of the fixes of one manifest; every fix is in `made` or in `failed`.

    `changes` are sentences of Markdown on what was edited beyond the plain change of version, or
    is left for a person; `undo` on what to take back beyond reverting the commit.
    """

    made: list[Fix] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.made += other.made
        self.failed += other.failed
        self.changes += other.changes
        self.undo += other.undo

    def fail(self, fixes: Sequence[Fix], reason: str) -> None:
        self.failed += [Failure(fix, reason) for fix in fixes]


def read_fixes(job: Mapping[str, Any]) -> list[Fix]:
    """The key `fixes` of the job file. Raises KeyError, TypeError or ValueError when malformed."""
    return [_fix(entry) for entry in job.get("fixes", [])]


def _fix(entry: Mapping[str, Any]) -> Fix:
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
