"""The index of a large repository: complete, and without changes.

A full index (everything parsed, imports resolved, results stored) alternates with `git cat-file
--batch` alone, whose output is discarded. cloc counts the same files once. `memory` is the peak of
all processes of one full index.
"""

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentjobs.inventory.indexing import claim_due, index_repository
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.settings import load
from bench.index_repositories import Subject, files_of, subjects
from bench.report import verdict

ROUNDS = 5
GOALS = {
    "full, times cat-file": 1.5,
    "cloc, times full": 10.0,
    "unchanged, ms": 50.0,
    "memory, MB": 300.0,
}
_AT_LEAST = frozenset({"cloc, times full"})
_READ_BYTES = 1024 * 1024


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        root = Path(directory)
        return [row for subject in subjects(root) for row in asyncio.run(_measure(root, subject))]


async def _measure(root: Path, subject: Subject) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        times.setdefault("cat-file", []).append(await asyncio.to_thread(_cat_file, subject))
        for name, taken in (await _indexes(root / f"data-{number}", subject)).items():
            times.setdefault(name, []).append(taken)
    seconds = {name: statistics.median(taken) for name, taken in times.items()}
    with _peak_memory() as peak:
        await _indexes(root / "data-memory", subject)
    figures = {
        "full, times cat-file": seconds["full"] / seconds["cat-file"],
        "cloc, times full": await asyncio.to_thread(_cloc, root, subject) / seconds["full"],
        "unchanged, ms": seconds["unchanged"] * 1_000,
        "memory, MB": peak[0] / 1_000_000,
    }
    return [_row(subject.name, seconds["full"], name, value) for name, value in figures.items()]


def _row(subject: str, full: float, name: str, value: float) -> dict[str, Any]:
    goal = GOALS[name]
    met = value >= goal if name in _AT_LEAST else value <= goal
    return {
        "repository": subject,
        "full s": round(full, 2),
        "figure": name,
        "value": round(value, 3),
        "goal": goal,
        "verdict": "no cloc" if value == 0 else verdict(met=met),
    }


async def _indexes(data: Path, subject: Subject) -> dict[str, float]:
    """The first index, and one without changes."""
    data.mkdir()
    settings = load({"AGENTJOBS_DATA_DIR": str(data)})
    db = await open_database(settings.effective_database_url, migrate=True)
    try:
        await _connect(db, subject.head)
        taken = {}
        for name in ("full", "unchanged"):
            await db.transact(_make_due)
            started = time.perf_counter()
            repo = await claim_due(db)
            assert repo is not None
            await index_repository(db, repo, subject.git_dir, settings)
            taken[name] = time.perf_counter() - started
        return taken
    finally:
        await db.close()
        await asyncio.to_thread(shutil.rmtree, data)


async def _connect(db: Database, head: str) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": "/nonexistent"})
    await ensure_default(db, Plans(settings.plans))
    owner = await find_organization(db, "default")
    await db.transact(_insert, owner.id, head)


async def _insert(tx: Transaction, owner: str, head: str) -> None:
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at)"
        " VALUES ('repo_x', :owner, 'bench/large', 'local', '', 'main', :head, 1)",
        owner=owner,
        head=head,
    )


async def _make_due(tx: Transaction) -> None:
    await tx.execute(
        "INSERT INTO index_queue (repo_id, due_at) VALUES ('repo_x', 1)"
        " ON CONFLICT (repo_id) DO UPDATE SET due_at = 1"
    )


def _cat_file(subject: Subject) -> float:
    blobs = "".join(f"{blob}\n" for blob, _ in files_of(subject.git_dir, subject.head))
    with tempfile.TemporaryFile() as asked:
        asked.write(blobs.encode())
        asked.seek(0)
        started = time.perf_counter()
        with subprocess.Popen(
            ["git", "-C", str(subject.git_dir), "cat-file", "--batch", "--buffer"],
            stdin=asked,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            while os.read(process.stdout.fileno(), _READ_BYTES):
                pass
        return time.perf_counter() - started


def _cloc(root: Path, subject: Subject) -> float:
    """0 if cloc is not installed (Debian: apt-get install cloc)."""
    if shutil.which("cloc") is None:
        return 0
    tree = root / "tree"
    tree.mkdir()
    git = ["git", "-c", "safe.directory=*", f"--git-dir={subject.git_dir}", f"--work-tree={tree}"]
    index = {**os.environ, "GIT_INDEX_FILE": str(root / "cloc-index")}
    subprocess.run([*git, "read-tree", subject.head], env=index, check=True)
    subprocess.run([*git, "checkout-index", "--all", "--force"], env=index, check=True)
    started = time.perf_counter()
    subprocess.run(["cloc", "--quiet", str(tree)], capture_output=True, check=True)
    taken = time.perf_counter() - started
    shutil.rmtree(tree)
    return taken


@contextlib.contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """The peak memory of all child processes; shared pages count once."""
    peak, over = [0], threading.Event()

    def sample() -> None:
        while not over.wait(0.02):
            peak[0] = max(peak[0], _held_below(os.getpid()))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _held_below(pid: int) -> int:
    held = 0
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            rollup = Path(f"/proc/{child}/smaps_rollup").read_text().splitlines()
            pss = next(line for line in rollup if line.startswith("Pss_Anon:"))
            held += int(pss.split()[1]) * 1024 + _held_below(int(child))
    return held
