"""How grave a fault is, and who says so."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from agentjobs.advisories.model import Advisory

Level = Literal["unknown", "low", "medium", "high", "critical"]

LEVELS: tuple[Level, ...] = ("unknown", "low", "medium", "high", "critical")

_LABELS: Mapping[str, Level] = {
    "low": "low",
    "moderate": "medium",
    "medium": "medium",
    "important": "high",
    "high": "high",
    "critical": "critical",
}


class Severity(msgspec.Struct, frozen=True):
    """`source` says in words where the level is from."""

    level: Level
    score: float | None
    source: str


UNKNOWN = Severity("unknown", None, "no database rates it")


def severity_of(advisory: Advisory, relatives: Sequence[Advisory] = ()) -> Severity:
    """`relatives` are other records of the same fault: they speak where this one says nothing."""
    own = (advisory,)
    others = [other for other in relatives if other is not advisory and other.id != advisory.id]
    return (
        _rated(own, "CVSS_V4")
        or _rated(own, "CVSS_V3")
        or _labelled(own)
        or _rated(others, "CVSS_V4")
        or _rated(others, "CVSS_V3")
        or _labelled(others)
        or _rated(own, "CVSS_V2")
        or _rated(others, "CVSS_V2")
        or UNKNOWN
    )


def is_at_least(level: str, threshold: str) -> bool:
    """What is unknown reaches no threshold."""
    return level != "unknown" and rank_of(level) >= rank_of(threshold)


def rank_of(level: str) -> int:
    return LEVELS.index(level)


def _rated(advisories: Iterable[Advisory], kind: str) -> Severity | None:
    """The worst, where there are several. A score of 0 says that nothing is to be graded."""
    worst: Severity | None = None
    for advisory in advisories:
        for rating in advisory.ratings:
            read = _read(kind, rating.vector) if rating.kind == kind else None
            if read and read.score > (0 if worst is None else worst.score or 0):
                source = f"CVSS {read.edition} of {advisory.id}"
                worst = Severity(_level_of(read.score), read.score, source)
    return worst


def _labelled(advisories: Iterable[Advisory]) -> Severity | None:
    found = [
        Severity(_LABELS[label], None, f"label of {advisory.id}")
        for advisory in advisories
        if (label := (advisory.label or "").strip().lower()) in _LABELS
    ]
    return max(found, key=lambda severity: rank_of(severity.level), default=None)


def _level_of(score: float) -> Level:
    if score >= 9.0:
        return "critical"
    if score >= 7.0:
        return "high"
    return "medium" if score >= 4.0 else "low"


class _Read(NamedTuple):
    edition: str
    score: float


# Few vectors are in use, and each takes long to read.
@lru_cache(maxsize=8192)
def _read(kind: str, vector: str) -> _Read | None:
    """The edition of CVSS and the base score; None where the vector is broken."""
    import cvss  # type: ignore[import-untyped]  # noqa: PLC0415 (slow to load, seldom needed)

    try:
        if kind == "CVSS_V4":
            return _Read("4.0", float(cvss.CVSS4(vector).base_score))
        if kind == "CVSS_V3":
            edition = "3.0" if vector.startswith("CVSS:3.0") else "3.1"
            return _Read(edition, float(cvss.CVSS3(vector).base_score))
        return _Read("2.0", float(cvss.CVSS2(vector).base_score))
    except cvss.exceptions.CVSSError:
        return None
