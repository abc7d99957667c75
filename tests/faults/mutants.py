"""Defects that a campaign must detect, as edits of a copy of the source.

`python -m tests.faults --mutant finish-without-fence --topology fleet --seeds 34-40` runs seeds
with the copy until a violation is found. Every process reports from where it loaded the service, so
that a run with another copy fails. The defences overlap: a push that is not refused, for example,
is mostly replaced by that of the next claim, and needs more seeds.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The exit code of a campaign that found one.
VIOLATION = 3
_SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Edit:
    """`old` occurs exactly once in the module."""

    module: str
    old: str
    new: str


MUTANTS: dict[str, tuple[Edit, ...]] = {
    # A worker whose claim has ended can still store the outcome of its run.
    "finish-without-fence": (
        Edit("jobs/queue/transition.py", "(fence = {held_fence} AND lease", "(lease"),
        Edit(
            "jobs/queue/finish.py",
            '{(row["id"], row["fence"]): row for row in rows}',
            '{(job.id, job.fence): row for row in rows for job in jobs if job.id == row["id"]}',
        ),
    ),
    # A worker whose claim has ended can still push to a platform (--topology platform).
    "push-without-claim": (
        Edit("jobs/run/hosted_repo.py", "if self.is_remote and not await", "if False and await"),
    ),
    # The agent runs again although its work was kept.
    "kept-work-ignored": (
        Edit("jobs/run/run.py", "if run.job.kept_at is not None:", "if False:"),
        Edit("jobs/queue/transition.py", '" AND jobs.kept_at IS NULL"', '""'),
    ),
    # Of several events that are stored together, only the first one is delivered.
    "event-dropped": (
        Edit(
            "webhooks/events.py",
            "    return deliveries\n",
            "    return deliveries[:1]\n",
        ),
    ),
    # A job whose worker was lost is not completed by its open pull request.
    "pull-request-forgotten": (
        Edit("jobs/queue/rescue.py", "    if pull is None:\n", "    if True:\n"),
        Edit(
            "jobs/run/earlier_attempt.py",
            "if head is None else PushedWork(base, head)",
            "if True else PushedWork(base, head or base)",
        ),
    ),
    # A worker that was only cut off counts as a lost one.
    "cut-off-counts": (
        Edit("jobs/queue/lost_claims.py", "SET was_alive = TRUE", "SET was_alive = FALSE"),
        Edit("jobs/queue/lost_claims.py", "w.heartbeat_at > j.lease_expires_at", "1 = 0"),
    ),
}


def run_mutant(name: str, arguments: list[str]) -> int:
    """0 if a seed detects the mutant. `arguments` are those of the campaign."""
    directory = Path(tempfile.mkdtemp(prefix="agentjobs-mutant-"))
    try:
        shutil.copytree(_SOURCE, directory / "src")
        for edit in MUTANTS[name]:
            _apply(edit, directory / "src" / "agentjobs" / edit.module)
        rest = [each for each in arguments if each not in ("--mutant", name)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults", *rest, "--until-violation"],
            env={**os.environ, "PYTHONPATH": str(directory / "src")},
            check=False,
        )
    finally:
        shutil.rmtree(directory)
    return 0 if done.returncode == VIOLATION else 1


def check_mutants() -> None:
    """Raises AssertionError if an edit no longer fits the source."""
    for edits in MUTANTS.values():
        for edit in edits:
            _edited(edit, _SOURCE / "agentjobs" / edit.module)


def _apply(edit: Edit, path: Path) -> None:
    path.write_text(_edited(edit, path))


def _edited(edit: Edit, path: Path) -> str:
    text = path.read_text()
    assert text.count(edit.old) == 1, f"{edit.module} has {text.count(edit.old)} of {edit.old!r}"
    return text.replace(edit.old, edit.new)
