"""Recorded advisories, parsed as the service parses them."""

from functools import cache

from agentjobs_dependencies.advisories.model import Advisory, parse_advisory
from tests.support.paths import DATA

RECORDS = DATA / "advisory_records"


@cache
def every_advisory() -> tuple[Advisory, ...]:
    """Without the informational advisory."""
    parsed = (parse_advisory(path.read_bytes()) for path in sorted(RECORDS.glob("*/*.json")))
    return tuple(advisory for advisory in parsed if advisory)


def recorded(advisory_id: str) -> Advisory:
    return next(advisory for advisory in every_advisory() if advisory.id == advisory_id)


def about(ecosystem: str, name: str) -> list[Advisory]:
    package = (ecosystem, name)
    return [a for a in every_advisory() if package in {(x.ecosystem, x.name) for x in a.affected}]
