"""Runs a campaign: `make faults SEEDS=1-100`, or `python -m tests.faults --seeds 7`."""

import argparse
import sys

from tests.faults.campaign import Engine, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1-10", help="a number, or the first and the last")
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="postgresql")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    engine, results = Engine(options.engine), []
    try:
        for seed in range(int(first), int(last or first) + 1):
            results.append(run_seed(engine, seed))
            print(results[-1].line(), flush=True)
    finally:
        engine.close()
        failed = [str(each.seed) for each in results if each.violations]
        print(
            f"{options.engine}: {len(results)} seeds, {sum(each.jobs for each in results)} jobs,"
            f" {sum(each.faults for each in results)} faults,"
            f" {sum(each.requeued for each in results)} runs requeued,"
            f" {sum(each.kept for each in results)} kept, violations in {len(failed)} seeds"
            f" {', '.join(failed)}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
