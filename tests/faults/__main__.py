"""Runs a campaign: `make test SUITE=faults SEEDS=1-100`, or `python -m tests.faults --seeds 7`.

Each seed plans jobs and faults for a deployment of real processes (`schedule.py`): one `up`, or
`serve` and workers over SQLite or PostgreSQL, through PgBouncer, with a standby, with a platform or
with wrong clocks. A fault begins at a time, or when a process reaches a phase of a job
(`failpoints.py`); one that stops a worker for longer than its lease lets another worker take over
before it continues. After the last fault everything must settle, and `checker.py` proves the
promise; its text has the rules. A run with violations keeps its database, logs and repositories
and prints where.

The checker itself is checked by `test_checker.py`, and by mutants (`mutants.py`): copies of the
service with a defect, such as a fence that is not compared. `tests/mutants` shows that each is
detected by its scenario (`scenarios.py`), and that the scenario passes without it. Both also run
alone: `python -m tests.faults --scenario late-completion --mutant completed-twice`; with seeds
instead of a scenario, a mutant shows how often a random schedule finds it.

Disks are only filled or frozen as root, who can mount a small file system for each process; an
ordinary user gets all other faults. Root needs a cgroup to refuse processes.
"""

import argparse
import contextlib
import sys
from collections import Counter
from functools import partial

from tests.faults.campaign import Result, run_schedule, run_seed
from tests.faults.deployment import Engine
from tests.faults.machine import can_fill_disks, can_limit_processes
from tests.faults.mutants import MUTANTS, mutated
from tests.faults.scenarios import BEGIN_SECONDS, SCENARIOS
from tests.faults.schedule import Topology


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-10", help="a number, or the first and the last")
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--topology", type=Topology, help="for all seeds, instead of one for each")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="instead of seeds")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="a defect to be detected")
    parser.add_argument("--until-violation", action="store_true", help="end with the first one")
    options = parser.parse_args()
    if not can_fill_disks():
        print("no disk is filled: only root can mount a small file system for each process")
    if not can_limit_processes():
        print("no process is refused: there is no cgroup that counts processes")
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: print(_summary(options.engine, results)))
        engine = Engine(options.engine)
        stack.callback(engine.close)
        source = stack.enter_context(mutated(options.mutant)) if options.mutant else None
        if options.scenario:
            schedule = SCENARIOS[options.scenario]
            runs = [
                partial(run_schedule, engine, options.scenario, schedule, BEGIN_SECONDS, source)
            ]
        else:
            runs = [
                partial(run_seed, engine, seed, topology=options.topology, source=source)
                for seed in seeds
            ]
        for run in runs:
            results.append(run())
            print(results[-1].line(), flush=True)
            if options.until_violation and results[-1].violations:
                break
    has_violation = any(result.violations for result in results)
    if options.mutant:
        print(f"{options.mutant}: {'detected' if has_violation else 'not detected'}")
    return int(has_violation != bool(options.mutant))


def _summary(engine: str, results: list[Result]) -> str:
    faults: Counter[str] = sum((each.faults for each in results), Counter())
    failed = [each.name for each in results if each.violations]
    kinds = ", ".join(f"{count} {fault}" for fault, count in faults.most_common())
    return (
        f"{engine}: {len(results)} runs, {sum(each.jobs for each in results)} jobs,"
        f" {faults.total()} faults ({kinds}),"
        f" {sum(each.takeovers for each in results)} takeovers,"
        f" {sum(each.kept for each in results)} kept,"
        f" violations in {len(failed)} {', '.join(failed)}"
    )


if __name__ == "__main__":
    sys.exit(main())
