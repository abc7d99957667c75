"""A log of a million deliveries compared to ten thousand: claim, pages, prune, on both stores.

Each log covers thirty days, with an attempt for each delivery, and has the same short queue of
waiting deliveries. The two logs are measured alternately with the service's own code.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs.webhooks.concurrency import ScanCursor, Slots
from agentjobs.webhooks.events import JOB_QUEUED
from agentjobs.webhooks.log import DeliveryFilter, list_deliveries
from agentjobs.webhooks.queue import LeaseTerms, claim, release
from agentjobs.webhooks.retention import prune_deliveries
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import first_id_at, new_id
from bench.cluster import durable_cluster
from bench.report import verdict
from bench.webhook_history import ORGANIZATIONS, History, load_history
from tests.support.deliveries import record_event

SMALL, LARGE = 10_000, 1_000_000
ROUNDS = 60
WARM_UP = 5
# Pruning deletes rows, and the small log must keep about its size.
PRUNE_EVERY = 4
GOAL_RATIO = 1.5
_WAITING_JOBS = 100
_BATCH = 64
_KEPT_DAYS = 30
_PRUNED = 200

PRUNE = "prune of a batch"

Times = tuple[list[float], list[float]]
Step = Callable[[], Awaitable[float]]


@dataclass
class Log:
    """One log and its operations. Each returns milliseconds."""

    db: Database
    history: History
    pruned: int = 0

    def steps(self) -> dict[str, Step]:
        middle = self.history.at_ms(self.history.deliveries // 2)
        before = first_id_at("dlv", middle)
        job = DeliveryFilter(job_id=self.history.job_of(self.history.deliveries // 2))
        return {
            "claim of a batch": self._claim,
            "first page": lambda: self._page(DeliveryFilter()),
            "page in the middle": lambda: self._page(DeliveryFilter(), before),
            "page of failed ones": lambda: self._page(DeliveryFilter(status="failed")),
            "page of one job": lambda: self._page(job),
            PRUNE: self._prune,
        }

    async def _claim(self) -> float:
        terms = LeaseTerms(owner="snd_bench", lease_ms=30_000, now=now_ms())
        began = time.perf_counter()
        claimed = await self.db.transact(claim, "first", Slots(_BATCH, 8), terms, ScanCursor())
        spent = time.perf_counter() - began
        assert claimed.deliveries
        await self.db.transact(release, [one for _, one in claimed.deliveries], terms.owner)
        return spent * 1e3

    async def _page(self, wanted: DeliveryFilter, before: str | None = None) -> float:
        began = time.perf_counter()
        page = await list_deliveries(self.db, ORGANIZATIONS[0], wanted, before=before)
        spent = time.perf_counter() - began
        assert page.deliveries
        return spent * 1e3

    async def _prune(self) -> float:
        self.pruned += _PRUNED
        now = self.history.at_ms(self.pruned) + _KEPT_DAYS * DAY_MS
        began = time.perf_counter()
        removed = await prune_deliveries(self.db, _KEPT_DAYS, now)
        spent = time.perf_counter() - began
        assert removed == _PRUNED, removed
        return spent * 1e3


def measure() -> list[dict[str, Any]]:
    with (
        durable_cluster() as cluster,
        tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory,
    ):
        urls = {
            "sqlite": [f"sqlite:///{directory}/{size}.db" for size in (SMALL, LARGE)],
            "postgresql": [cluster.url(cluster.create_database()) for _ in (SMALL, LARGE)],
        }
        return [row for store, (small, large) in urls.items() for row in _rows(store, small, large)]


def _rows(store: str, small: str, large: str) -> Iterator[dict[str, Any]]:
    found = uvloop.run(_measure(small, large))
    for step, times in found.items():
        yield _figure(store, step, *times)


async def _measure(small: str, large: str) -> dict[str, Times]:
    async with _log(small, SMALL) as one, _log(large, LARGE) as other:
        steps = {name: (step, other.steps()[name]) for name, step in one.steps().items()}
        found: dict[str, Times] = {name: ([], []) for name in steps}
        for number in range(WARM_UP + ROUNDS):
            for name, of_each in steps.items():
                if _is_turn_of(name, number):
                    spent = [await step() for step in of_each]
                    _keep(found[name], spent, is_warm=number >= WARM_UP)
        return found


def _is_turn_of(name: str, number: int) -> bool:
    return name != PRUNE or number % PRUNE_EVERY == 0


def _keep(times: Times, spent: Sequence[float], *, is_warm: bool) -> None:
    if is_warm:
        for kept, each in zip(times, spent, strict=True):
            kept.append(each)


@contextlib.asynccontextmanager
async def _log(url: str, deliveries: int) -> AsyncIterator[Log]:
    history = History(deliveries, until_ms=now_ms())
    db = await open_database(url, migrate=True)
    try:
        await load_history(url, history)
        await _queue(db, _WAITING_JOBS)
        yield Log(db, history)
    finally:
        await db.close()


async def _queue(db: Database, jobs: int) -> None:
    for number in range(jobs):
        await db.transact(
            record_event,
            JOB_QUEUED,
            organization_id=ORGANIZATIONS[number % len(ORGANIZATIONS)],
            job_id=new_id("job"),
            sequence=1,
            repo="acme/shop",
            pr_url=None,
            at_ms=now_ms(),
        )


def _figure(
    store: str, step: str, small: Sequence[float], large: Sequence[float]
) -> dict[str, Any]:
    ratio = statistics.median(large) / statistics.median(small)
    return {
        "store": store,
        "what": step,
        "times": len(small),
        f"{SMALL:,} ms": round(statistics.median(small), 2),
        f"{LARGE:,} ms": round(statistics.median(large), 2),
        "ratio": round(ratio, 2),
        "goal": GOAL_RATIO,
        "verdict": verdict(met=ratio <= GOAL_RATIO),
    }
