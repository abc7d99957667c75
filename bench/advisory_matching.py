"""Matches 1,000 dependencies with 10,000 advisories, two or three for each dependency.

That is more than usual: most dependencies have no advisory.
"""

import random
import statistics
import time
from typing import Any

from agentjobs_dependencies.advisories import matching
from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.advisories.model import Advisory, Affected, AffectedRange, Event, Rating
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.versions import order
from bench.report import verdict

DEPENDENCIES, ADVISORIES, PACKAGES, GOAL_MS, RUNS = 1_000, 10_000, 4_000, 100, 7
ECOSYSTEMS = ("PyPI", "npm", "Go", "crates.io", "Maven", "RubyGems", "Packagist")
VECTOR = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"


def measure() -> list[dict[str, Any]]:
    chance = random.Random(20)
    advisories = [_advisory(number, chance) for number in range(ADVISORIES)]
    dependencies = [_dependency(number, chance) for number in range(DEPENDENCIES)]
    cold, warm, hits = [], [], 0
    for _ in range(RUNS):
        _forget()
        took, hits = _match(dependencies, advisories)
        cold.append(took)
        warm.append(_match(dependencies, advisories)[0])
    return [_row("nothing read before", cold, hits), _row("again", warm, hits)]


def _match(dependencies: list[Dependency], advisories: list[Advisory]) -> tuple[float, int]:
    # Nothing waits here, so CPU time equals the time on an idle machine.
    started = time.process_time()
    findings = match_dependencies(dependencies, advisories)
    return (time.process_time() - started) * 1000, len(findings)


def _forget() -> None:
    order.version_key.cache_clear()
    matching._parse.cache_clear()


def _package(number: int) -> tuple[str, str]:
    return ECOSYSTEMS[number % len(ECOSYSTEMS)], f"package-{number}"


def _dependency(number: int, chance: random.Random) -> Dependency:
    ecosystem, name = _package(number)
    return Dependency(ecosystem, name, _version(chance), "", True, "runtime", "lock")


def _version(chance: random.Random) -> str:
    return f"{chance.randint(0, 4)}.{chance.randint(0, 30)}.{chance.randint(0, 40)}"


def _advisory(number: int, chance: random.Random) -> Advisory:
    ecosystem, name = _package(number % PACKAGES)
    # Newer ranges first, as in some databases.
    events = [Event("introduced", "3.0.0"), Event("fixed", f"3.{_version(chance)[2:]}")]
    events += [Event("introduced", "0"), Event("fixed", _version(chance))]
    ranges = (AffectedRange("ECOSYSTEM", tuple(events)),)
    return Advisory(
        id=f"GHSA-{number}",
        modified="2026-01-01T00:00:00Z",
        affected=(Affected(ecosystem, name, ranges),),
        aliases=(f"CVE-2026-{number}",),
        ratings=(Rating("CVSS_V3", VECTOR),),
    )


def _row(what: str, took: list[float], hits: int) -> dict[str, Any]:
    middle = statistics.median(took)
    return {
        "dependencies": DEPENDENCIES,
        "advisories": ADVISORIES,
        "caches": what,
        "findings": hits,
        "ms": middle,
        "worst ms": max(took),
        "goal": f"<= {GOAL_MS} ms",
        "verdict": verdict(met=middle <= GOAL_MS),
    }
