"""Determines the severity of a vulnerability and its source."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Literal, NamedTuple

import msgspec

from agentjobs_dependencies.advisories.model import Advisory

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
    """`source` describes where the level comes from; `vector` is the CVSS vector of the score."""

    level: Level
    score: float | None
    source: str
    vector: str = ""


UNKNOWN = Severity("unknown", None, "no database rates it")


def find_severity(advisory: Advisory, relatives: Sequence[Advisory] = ()) -> Severity:
    """`relatives` are other records of the vulnerability, used if this one has no severity."""
    own = (advisory,)
    others = [other for other in relatives if other is not advisory and other.id != advisory.id]
    return (
        _from_ratings(own, "CVSS_V4")
        or _from_ratings(own, "CVSS_V3")
        or _from_labels(own)
        or _from_ratings(others, "CVSS_V4")
        or _from_ratings(others, "CVSS_V3")
        or _from_labels(others)
        or _from_ratings(own, "CVSS_V2")
        or _from_ratings(others, "CVSS_V2")
        or UNKNOWN
    )


def is_at_least(level: str, threshold: str, unrated: str) -> bool:
    """`unrated` is the level that counts for an unknown severity, or `none`."""
    counted = unrated if level == "unknown" else level
    return counted != "none" and rank_level(counted) >= rank_level(threshold)


def format_level(level: str) -> str:
    """The level as people read it."""
    return "unrated" if level == "unknown" else level


def rank_level(level: str) -> int:
    return LEVELS.index(level)


def _from_ratings(advisories: Iterable[Advisory], kind: str) -> Severity | None:
    """The worst rating. Ratings with a score of 0 are ignored."""
    worst: Severity | None = None
    for advisory in advisories:
        for rating in advisory.ratings:
            parsed = _parse(kind, rating.vector) if rating.kind == kind else None
            if parsed and parsed.score > (0 if worst is None else worst.score or 0):
                source = f"CVSS {parsed.edition} of {advisory.id}"
                worst = Severity(_classify_score(parsed.score), parsed.score, source, rating.vector)
    return worst


def _from_labels(advisories: Iterable[Advisory]) -> Severity | None:
    labels = [
        Severity(_LABELS[label], None, f"label of {advisory.id}")
        for advisory in advisories
        if (label := (advisory.label or "").strip().lower()) in _LABELS
    ]
    return max(labels, key=lambda severity: rank_level(severity.level), default=None)


def _classify_score(score: float) -> Level:
    if score >= 9.0:
        return "critical"
    if score >= 7.0:
        return "high"
    return "medium" if score >= 4.0 else "low"


class _CvssScore(NamedTuple):
    edition: str
    score: float


# Few different vectors are in use, and parsing one is slow.
@lru_cache(maxsize=8192)
def _parse(kind: str, vector: str) -> _CvssScore | None:
    """None if the vector is invalid."""
    import cvss  # type: ignore[import-untyped]  # noqa: PLC0415 (slow to import, rarely needed)

    try:
        if kind == "CVSS_V4":
            return _CvssScore("4.0", float(cvss.CVSS4(vector).base_score))
        if kind == "CVSS_V3":
            edition = "3.0" if vector.startswith("CVSS:3.0") else "3.1"
            return _CvssScore(edition, float(cvss.CVSS3(vector).base_score))
        return _CvssScore("2.0", float(cvss.CVSS2(vector).base_score))
    except cvss.exceptions.CVSSError:
        return None


def describe_vector(vector: str) -> list[tuple[str, str]]:
    """Each base metric and its value, such as ("Attack vector", "network")."""
    edition = {"CVSS:4": "4", "CVSS:3": "3"}.get(vector[:6], "2")
    # Imported when needed, as above.
    metrics = import_module(f"cvss.constants{edition}")
    given = dict(part.partition(":")[::2] for part in vector.split("/"))
    return [
        (metrics.METRICS_ABBREVIATIONS[metric].capitalize(), names[given[metric]].lower())
        for metric in metrics.METRICS_MANDATORY
        if given.get(metric) in (names := metrics.METRICS_VALUE_NAMES[metric])
    ]
