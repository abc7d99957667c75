"""Runs a campaign: `make faults SEEDS=1-100`, or `python -m tests.faults --seeds 7`.

Each seed plans jobs and faults for a deployment of real processes (`schedule.py`): one `up`, or
`serve` and workers over SQLite or PostgreSQL, through PgBouncer, with a standby, with a platform or
with wrong clocks. A fault begins at a time, or when a process reaches a phase of a job
(`failpoints.py`); one that stops a worker for longer than its lease lets another worker take over
before it continues. After the last fault everything must settle, and `checker.py` proves the
promise; its text has the rules. A run with violations keeps its database, logs and repositories
and prints where.

The checker itself is checked by `test_checker.py`, and by mutants (`mutants.py`): copies of the
service with a defect, such as a fence that is not compared. Each must be detected within a few
seeds: `make faults SEEDS=1-20 FAULTS_ARGS="--mutant finish-without-fence"`.

Disks are only filled as root, who can mount a small file system for each process; an ordinary user
gets all other faults.
"""

import argparse
import sys
from collections import Counter

from tests.faults.campaign import Result, run_seed
from tests.faults.deployment import Engine
from tests.faults.fleet import can_fill_disks
from tests.faults.mutants import MUTANTS, VIOLATION, run_mutant
from tests.faults.schedule import Topology


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-10", help="a number, or the first and the last")
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--topology", type=Topology, help="for all seeds, instead of one for each")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="a defect to be detected")
    parser.add_argument("--until-violation", action="store_true", help="end with the first one")
    options = parser.parse_args()
    if options.mutant:
        code = run_mutant(options.mutant, sys.argv[1:])
        print(f"{options.mutant}: {'not detected' if code else 'detected'}")
        return code
    if not can_fill_disks():
        print("no disk is filled: only root can mount a small file system for each process")
    first, _, last = options.seeds.partition("-")
    engine, results = Engine(options.engine), []
    try:
        for seed in range(int(first), int(last or first) + 1):
            results.append(run_seed(engine, seed, topology=options.topology))
            print(results[-1].line(), flush=True)
            if options.until_violation and results[-1].violations:
                break
    finally:
        engine.close()
        print(_summary(options.engine, results))
    return VIOLATION if any(each.violations for each in results) else 0


def _summary(engine: str, results: list[Result]) -> str:
    faults: Counter[str] = sum((each.faults for each in results), Counter())
    failed = [str(each.seed) for each in results if each.violations]
    kinds = ", ".join(f"{count} {fault}" for fault, count in faults.most_common())
    return (
        f"{engine}: {len(results)} seeds, {sum(each.jobs for each in results)} jobs,"
        f" {faults.total()} faults ({kinds}),"
        f" {sum(each.takeovers for each in results)} takeovers,"
        f" {sum(each.kept for each in results)} kept,"
        f" violations in {len(failed)} seeds {', '.join(failed)}"
    )


if __name__ == "__main__":
    sys.exit(main())
