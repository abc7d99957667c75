"""Runs every target, or with `--only` some, for a while: `make test SUITE=fuzz MINUTES=60`.

First the growth of time and memory with large repetitions, then random documents in rounds.
"""

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tests.hostile.fuzz.table import TARGETS
from tests.hostile.fuzz.target import Target

MAX_GROWTH_BYTES = 256 * 1024
MEMORY_BYTES = 64 * 1024
SECONDS_PER_ROUND = 2.0


@dataclass
class Tally:
    """`failures` are messages, each once."""

    inputs: int = 0
    cpu_seconds: float = 0.0
    failures: dict[str, None] = field(default_factory=dict)

    def run(self, check: Callable[[], None], value: object) -> None:
        self.inputs += 1
        try:
            check()
        except Exception as error:  # noqa: BLE001 - every failure is reported, and the run goes on
            message = f"{type(error).__name__}: {error}"[:200]
            if message not in self.failures:
                self.failures[message] = None
                traceback.print_exc()
                print(f"    {value!r:.2000}", flush=True)


def main() -> int:
    logging.disable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the random documents")
    parser.add_argument(
        "--only", action="append", help="a part of the names of the targets to run; repeatable"
    )
    parser.add_argument("--skip-growth", action="store_true")
    options = parser.parse_args()
    parts = options.only or [""]
    targets = [target for target in TARGETS if any(part in target.name for part in parts)]
    tallies = {target.name: Tally() for target in targets}
    seed = time.time_ns() if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    random = Random(seed)
    deadline = time.monotonic() + 60 * options.minutes
    for target in () if options.skip_growth else targets:
        _check_growth(target, tallies[target.name], deadline)
    while time.monotonic() < deadline:
        for target in targets:
            if time.monotonic() < deadline:
                _run_round(target, tallies[target.name], random)
        print(f"{sum(tally.inputs for tally in tallies.values()):,} inputs", flush=True)
    return _report(tallies)


def _check_growth(target: Target, tally: Tally, deadline: float) -> None:
    started = time.process_time()
    for frame, unit in target.growth_cases():
        if time.monotonic() < deadline:
            tally.run(partial(target.check_growth, frame, unit, MAX_GROWTH_BYTES), (frame, unit))
            tally.run(partial(target.check_memory, frame, unit, MEMORY_BYTES), (frame, unit))
    tally.cpu_seconds += time.process_time() - started


def _run_round(target: Target, tally: Tally, random: Random) -> None:
    started = time.process_time()
    while time.process_time() - started < SECONDS_PER_ROUND:
        value = target.inputs.sample(random)
        tally.run(partial(target.check, value), value)
    tally.cpu_seconds += time.process_time() - started


def _report(tallies: dict[str, Tally]) -> int:
    for name, tally in tallies.items():
        minutes = tally.cpu_seconds / 60
        print(f"{name:42} {tally.inputs:>12,} inputs {minutes:8.2f} CPU minutes")
        for message in tally.failures:
            print(f"    FAILED {message}")
    inputs = sum(tally.inputs for tally in tallies.values())
    minutes = sum(tally.cpu_seconds for tally in tallies.values()) / 60
    failures = sum(len(tally.failures) for tally in tallies.values())
    print(
        f"{len(tallies)} targets, {inputs:,} inputs, {minutes:.1f} CPU minutes, {failures} failures"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
