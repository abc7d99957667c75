"""An ordinary tenant beside one that attacks the service: its API's p95 and its jobs' p50 until the
agent starts, against the same tenant alone. Alone and beside an attack alternate in one run.
"""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from bench.report import verdict
from tests.hostile.test_neighbour import OUTPUT, busy_processes, long_paths
from tests.support.git_bombs import commit_tree_bomb, delta_bomb_pack
from tests.support.neighbour import MAX_MEMORY_MIB, Neighbour, SharedService, shared_service
from tests.support.workspace import run_git

SECONDS = 12.0
MAX_RATIO = 2.0
Attack = Callable[[SharedService, Path], object]


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as name:
        base = Path(name)
        environment = {"AGENTJOBS_LIMIT_GIT_CPU_SECONDS": "60"}
        with shared_service(base / "service", environment) as shared:
            run_git(base, "clone", "-q", shared.git_url("evil/app"), "clone")
            _observe(shared, SECONDS / 2)
            return [_figure(shared, base / "clone", attack) for attack in ATTACKS]


def _figure(shared: SharedService, clone: Path, attack: str) -> dict[str, Any]:
    alone = _observe(shared, SECONDS)
    with _repeating(ATTACKS[attack], shared, clone):
        beside = _observe(shared, SECONDS)
    ratios = [after / before for before, after in zip(alone, beside, strict=True)]
    return {
        "attack": attack,
        "API p95 ms alone": round(alone[0], 1),
        "beside": round(beside[0], 1),
        "ratio": round(ratios[0], 2),
        "start p50 ms alone": round(alone[1], 1),
        "start beside": round(beside[1], 1),
        "start ratio": round(ratios[1], 2),
        "memory MiB": shared.memory_mib(),
        "verdict": verdict(met=max(ratios) <= MAX_RATIO and shared.memory_mib() <= MAX_MEMORY_MIB),
    }


def _observe(shared: SharedService, seconds: float) -> tuple[float, float]:
    """The API's p95 and the p50 of starts, in milliseconds."""
    with Neighbour(shared.neighbour_api, shared.service.root_url, pause_seconds=0.02) as neighbour:
        time.sleep(seconds)
    if neighbour.failures:
        raise RuntimeError(f"the neighbour noticed: {neighbour.failures[:3]}")
    jobs = [shared.neighbour_api.job(job_id) for job_id in neighbour.job_ids]
    starts = [_milliseconds(job["started_at"]) - _milliseconds(job["created_at"]) for job in jobs]
    p95 = statistics.quantiles(neighbour.durations, n=20)[18] * 1_000
    return p95, max(statistics.median(starts), 1.0)


def _milliseconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp() * 1_000


@contextmanager
def _repeating(attack: Attack, shared: SharedService, clone: Path) -> Iterator[None]:
    """The attack again and again, in a process: a thread would delay the other client."""
    context = multiprocessing.get_context("fork")
    stopped = context.Event()

    def repeat() -> None:
        while not stopped.is_set():
            attack(shared, clone)

    process = context.Process(target=repeat)
    process.start()
    try:
        yield
    finally:
        stopped.set()
        process.join()
    if process.exitcode:
        raise RuntimeError("the attack failed")


def _push_delta_bombs(shared: SharedService, _clone: Path) -> None:
    pack = delta_bomb_pack(objects=5, object_bytes=600 * 1024**2)
    line = f"{'0' * 40} {'a' * 40} refs/heads/bomb\0report-status".encode()
    url = f"{shared.git_url('evil/app')}/git-receive-pack"
    headers = {"Content-Type": "application/x-git-receive-pack-request"}
    body = b"%04x%s0000%s" % (len(line) + 4, line, pack)
    with ThreadPoolExecutor(8) as executor:
        for _ in range(8):
            executor.submit(httpx.post, url, headers=headers, content=body, timeout=600)


def _commit_bomb(shared: SharedService, clone: Path) -> None:
    head = run_git(clone, "rev-parse", "HEAD")
    commit_tree_bomb(clone, levels=5, width=32)
    shared.attacker.finish("evil/app", "ordinary")
    run_git(clone, "push", "-q", "--force", "origin", f"{head}:refs/heads/main")


def _fill_queue(shared: SharedService, _clone: Path) -> None:
    body = {"repo": "evil/app", "agent": "hostile", "config_override": {"shell": "exit 1"}}
    for _ in range(100):
        shared.attacker.http.post("/jobs", json=body)


ATTACKS: dict[str, Attack] = {
    "long paths": lambda shared, _: shared.attack(python=long_paths(files=60_000)),
    "200 busy processes": lambda shared, _: shared.attack(python=busy_processes(seconds=10)),
    "output": lambda shared, _: shared.attack(shell=OUTPUT),
    "delta bombs": _push_delta_bombs,
    "commit of a billion files": _commit_bomb,
    "full queue": _fill_queue,
}
