"""Reads lock files of three megabytes and combines them into dependencies with their parents."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from agentjobs_dependencies import formats
from agentjobs_dependencies.combine import combine
from bench.report import verdict

BYTES, RUNS = 3_000_000, 7
# The second one has five times as many packages.
GOALS_MS = {"uv.lock": 150, "package-lock.json": 300}
HASH = "0123456789abcdef" * 4


def measure() -> list[dict[str, Any]]:
    return [
        _measure(kind, make)
        for kind, make in {"uv.lock": _uv_lock, "package-lock.json": _package_lock}.items()
    ]


def _measure(kind: str, make: Callable[[int, random.Random], bytes]) -> dict[str, Any]:
    packages = 100
    while len(content := make(packages, random.Random(5))) < BYTES:
        packages = packages * BYTES // len(content) + 50
    took, found = [], 0
    for _ in range(RUNS):
        started = time.process_time()
        facts = formats.read(formats.detect_kind(kind) or "", content)
        found = len(combine({kind: facts}).dependencies)
        took.append((time.process_time() - started) * 1000)
    middle = statistics.median(took)
    return {
        "file": kind,
        "MB": round(len(content) / 1e6, 1),
        "packages": found,
        "ms": round(middle, 1),
        "goal": f"<= {GOALS_MS[kind]} ms",
        "verdict": verdict(met=middle <= GOALS_MS[kind]),
    }


def _asked(number: int, packages: int, chance: random.Random) -> list[int]:
    """Each requires some later ones: no cycles, and all are reachable from the first."""
    later = [min(number + chance.randint(1, 40), packages - 1) for _ in range(3)]
    return sorted({number + 1, *later} - {number}) if number + 1 < packages else []


def _uv_lock(packages: int, chance: random.Random) -> bytes:
    registry = 'source = { registry = "https://packages.test/simple" }'
    lines = ["version = 1", "revision = 3", 'requires-python = ">=3.11"', ""]
    own = ['dependencies = [{ name = "package-0" }]', ""]
    lines += ["[[package]]", 'name = "shop"', 'version = "1"', 'source = { virtual = "." }', *own]
    for number in range(packages):
        lines += ["[[package]]", f'name = "package-{number}"', f'version = "1.{number}"', registry]
        requirements = [
            f'    {{ name = "package-{one}" }},' for one in _asked(number, packages, chance)
        ]
        lines += ["dependencies = [", *requirements, "]", "wheels = ["]
        lines += [
            f'    {{ url = "https://files.test/{HASH}/package_{number}-{tag}.whl",'
            f' hash = "sha256:{HASH}", size = {number + 1000} }},'
            for tag in range(8)
        ]
        lines += ["]", ""]
    return "\n".join(lines).encode()


def _package_lock(packages: int, chance: random.Random) -> bytes:
    entries: dict[str, Any] = {"": {"name": "shop", "dependencies": {"package-0": "^1.0.0"}}}
    for number in range(packages):
        entries[f"node_modules/package-{number}"] = {
            "version": f"1.0.{number}",
            "resolved": f"https://npm.test/package-{number}/-/package-{number}-1.0.{number}.tgz",
            "integrity": f"sha512-{HASH}",
            "dependencies": {
                f"package-{one}": "^1.0.0" for one in _asked(number, packages, chance)
            },
        }
    document = {"name": "shop", "lockfileVersion": 3, "requires": True, "packages": entries}
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
