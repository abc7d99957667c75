"""A tree for an agent, compared to `git clone --local` of the commit: one job, and four at once.

The repository has 27,000 generated files. Clones and checkouts alternate, and each round ends when
the last tree is complete. `cold` is the first job on a commit: the template is built and then
copied. `copied` is a job that finds the template but no spare tree; `warm` is every later one,
which repairs the tree of a finished job. Every job changes a few files.
"""

import asyncio
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_worker.workspace.checkout import Workspaces
from bench.report import verdict

FILES = 27_000
ROUNDS = 3
COPIED_ROUNDS = 1
AT_ONCE = 4
GOAL_RATIO = 0.25
_REPO = "repo_large"
_FIRST_UID = 900_000


@dataclass(frozen=True)
class Yard:
    """The paths; `commit` is the one that is cloned and checked out."""

    root: Path
    origin: Path
    commit: str


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        return asyncio.run(_measure(_prepare(Path(directory))))


async def _measure(yard: Yard) -> list[dict[str, Any]]:
    workspaces = _workspaces(yard)

    async def warm(number: int) -> float:
        await workspaces.wait_until_idle()
        return await _checkouts(workspaces, yard.commit, number)

    async def copied(number: int) -> float:
        fresh = _workspaces(yard)
        taken = await _checkouts(fresh, yard.commit, number)
        await fresh.close()
        return taken

    rows = [_figure("cold", 1, [await _clones(yard, 1)], [await copied(1)])]
    rows += [await _in_turns(yard, "copied", number, copied) for number in (1, AT_ONCE)]
    await warm(AT_ONCE)
    rows += [await _in_turns(yard, "warm", number, warm) for number in (1, AT_ONCE)]
    await workspaces.close()
    return rows


def _workspaces(yard: Yard) -> Workspaces:
    return Workspaces(yard.root / "workspaces", Mirrors(yard.root / "mirrors"))


async def _in_turns(
    yard: Yard, way: str, number: int, take: Callable[[int], Awaitable[float]]
) -> dict[str, Any]:
    clones, checkouts = [], []
    for _ in range(COPIED_ROUNDS if way == "copied" else ROUNDS):
        clones.append(await _clones(yard, number))
        checkouts.append(await take(number))
    return _figure(way, number, clones, checkouts)


async def _clones(yard: Yard, number: int) -> float:
    """Plain git, as on a command line."""
    targets = [yard.root / f"clone-{at}" for at in range(number)]
    started = time.perf_counter()
    running = [
        await asyncio.create_subprocess_exec(
            "git", "clone", "--quiet", "--local", str(yard.origin), str(target)
        )
        for target in targets
    ]
    for process in running:
        if await process.wait() != 0:
            raise RuntimeError("git clone failed")
    taken = time.perf_counter() - started
    for target in targets:
        await asyncio.to_thread(shutil.rmtree, target)
    return taken


async def _checkouts(workspaces: Workspaces, commit: str, number: int) -> float:
    started = time.perf_counter()
    handed = asyncio.Barrier(number + 1)
    jobs = [
        asyncio.create_task(_job(workspaces, commit, _FIRST_UID + at, handed))
        for at in range(number)
    ]
    await handed.wait()
    taken = time.perf_counter() - started
    await asyncio.gather(*jobs)
    return taken


async def _job(workspaces: Workspaces, commit: str, uid: int, handed: asyncio.Barrier) -> None:
    owner = uid if os.geteuid() == 0 else None
    async with workspaces.checkout(_REPO, commit, owner_uid=owner) as checkout:
        await handed.wait()
        (checkout.tree / "src/changed.py").write_text("print('new')\n")
        (checkout.tree / "src/p0/q0/file0.py").write_text("print('changed')\n")


def _figure(way: str, number: int, clones: list[float], checkouts: list[float]) -> dict[str, Any]:
    clone, checkout = statistics.median(clones), statistics.median(checkouts)
    ratio = checkout / clone
    return {
        "way": way,
        "at once": number,
        "rounds": len(clones),
        "clone --local s": round(clone, 2),
        "checkout s": round(checkout, 2),
        "slowest s": round(max(checkouts), 2),
        "ratio": round(ratio, 3),
        "goal": GOAL_RATIO if way == "warm" else 0.0,
        "verdict": verdict(met=ratio <= GOAL_RATIO) if way == "warm" else "-",
    }


def _prepare(root: Path) -> Yard:
    origin = root / "origin.git"
    _git(root, "init", "--quiet", "--bare", "-b", "main", str(origin))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=origin, input=_history(), check=True)
    _git(root, "clone", "--quiet", "--mirror", str(origin), str(root / "mirrors" / f"{_REPO}.git"))
    return Yard(root, origin, _git(origin, "rev-parse", "main"))


def _history() -> bytes:
    """One commit with files of a few kilobytes each, like source code."""
    sizes = random.Random(1)
    parts = [b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nx\n"]
    for number in range(FILES):
        words = min(int(sizes.lognormvariate(6, 1.2)), 30_000)
        text = b" ".join(b"%x" % sizes.getrandbits(24) for _ in range(words))
        name = b"src/p%d/q%d/file%d.py" % (number % 60, number % 900, number)
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(text), text))
    return b"".join(parts)


def _git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=directory, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()
