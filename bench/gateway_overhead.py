"""What the model gateway adds to a request, compared to the same request sent to the provider.

The provider is scripted and runs in its own process, so it responds in about a millisecond.
Requests are sent one after another over keep-alive connections, alternating between the provider,
a gateway on SQLite and one on PostgreSQL, each in its own process. Each request is reserved and
settled against a budget in the store. The overhead is the difference of the medians.
"""

import asyncio
import contextlib
import http.client
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import uvloop

from agentjobs.gateway.gateway import Gateway
from agentjobs.gateway.ledger import Account, Ledger
from agentjobs.gateway.prices import Prices
from agentjobs.gateway.spending import Totals
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.money import NANOUSD_PER_USD
from agentjobs_runtime.settings.tables import PriceTable
from agentjobs_runtime.upstream import Upstream
from bench.cluster import durable_cluster
from bench.report import verdict
from tests.support.stores import add

REQUESTS = 300
WARM_UP = 20
GOAL_P50_MS = 3.0
_PAUSE_SECONDS = 0.005
_SCRIPT = [{"text": "x" * 2_000, "usage": {"input": 1_500, "output": 500}, "always": True}]
# A typical size of a request in the middle of a run.
_MESSAGES = [{"role": "user", "content": "The quick brown fox. " * 10}] * 200


@dataclass
class Client:
    """One keep-alive connection."""

    url: str
    key: str
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)

    def ask(self, *, stream: bool) -> float:
        """Milliseconds until the last byte."""
        body = json.dumps({"model": "m", "messages": _MESSAGES, "stream": stream})
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        begun = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {content!r}")
        return (time.perf_counter() - begun) * 1e3


def measure() -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(_provider())
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="agentjobs-bench-"))
        cluster = stack.enter_context(durable_cluster())
        stores = {
            "sqlite": f"sqlite:///{directory}/agentjobs.db",
            "postgresql": cluster.url(cluster.create_database()),
        }
        clients = {"none": Client(provider, "key")}
        for store, url in stores.items():
            clients[store] = Client(*stack.enter_context(_in_a_process(provider, url)))
        return [row for stream in (False, True) for row in _rows(clients, stores, stream=stream)]


def _rows(
    clients: dict[str, Client], stores: dict[str, str], *, stream: bool
) -> Iterator[dict[str, Any]]:
    times: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(WARM_UP + REQUESTS):
        for name, client in clients.items():
            times[name].append(client.ask(stream=stream))
            time.sleep(_PAUSE_SECONDS)  # the settlement must not overlap with the next request
    straight = _p50(times["none"])
    for store in stores:
        added = _p50(times[store]) - straight
        yield {
            "answer": "streamed" if stream else "whole",
            "store": store,
            "requests": REQUESTS,
            "straight p50 ms": round(straight, 2),
            "through p50 ms": round(_p50(times[store]), 2),
            "added p50 ms": round(added, 2),
            "goal": GOAL_P50_MS,
            "verdict": verdict(met=added <= GOAL_P50_MS),
        }


def _p50(times: list[float]) -> float:
    return statistics.median(times[WARM_UP:])


@contextlib.contextmanager
def _provider() -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump(_SCRIPT, script)
        script.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.model_server", "--script", script.name],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def _in_a_process(provider: str, database_url: str) -> Iterator[tuple[str, str]]:
    """A gateway like in a worker; returns its address and key."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(provider, database_url, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join()


def _serve(provider: str, database_url: str, pipe: "Connection[tuple[str, str], str]") -> None:
    async def serve() -> None:
        async with _gateway(provider, database_url) as address:
            pipe.send(address)
            await asyncio.to_thread(pipe.recv)

    uvloop.run(serve())


@contextlib.asynccontextmanager
async def _gateway(provider: str, database_url: str) -> AsyncIterator[tuple[str, str]]:
    db = await open_database(database_url, migrate=True)
    await db.transact(add, "acme")
    limit = 1_000 * NANOUSD_PER_USD
    account = Account(
        job_id="job", organization_id="acme", job_limit_nanousd=limit, day_limit_nanousd=limit
    )
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        gateway = Gateway(
            Upstream(api="openai", url=provider, key="key"),
            session=session,
            prices=Prices([PriceTable("m", 1, 10)]),
            ledger=Ledger(db, account, _write_usage),
            on_note=print,
            on_budget_exceeded=print,
        )
        server = await asyncio.get_running_loop().create_server(gateway.protocol, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}", gateway.token
        finally:
            server.close()
            await gateway.close()
            await db.close()


async def _write_usage(tx: Transaction, totals: Totals) -> None:
    """Like the run of a job, but without the job."""
    usage = json.dumps(totals.as_usage())
    await tx.execute("UPDATE jobs SET usage = :usage WHERE id = 'job'", usage=usage)
