"""A gateway on a real socket with a scripted provider and a real store, for its tests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from agentjobs.gateway.gateway import Gateway
from agentjobs.gateway.ledger import Account, Ledger
from agentjobs.gateway.prices import Prices
from agentjobs.gateway.spending import Totals
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.money import NANOUSD_PER_USD
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.settings.tables import PriceTable
from agentjobs_runtime.upstream import Api, Upstream
from tests.support.model_messages import ModelReply
from tests.support.model_server import ModelServer, model_server
from tests.support.stores import add

REAL_KEY = "sk-the-real-key-of-the-organization"
# An input token costs a millionth of a dollar, an output token ten of them.
PRICES = (
    PriceTable("priced", 1, 10, cached_input=0.1, cache_write=1.25, max_output_tokens=100),
    PriceTable("plain-*", 1, 10),
)
ORGANIZATION = "acme"
JOB = "job_1"


@dataclass
class GatewayHarness:
    gateway: Gateway
    url: str
    provider: ModelServer
    db: Database
    http: aiohttp.ClientSession
    session: aiohttp.ClientSession
    """The gateway's connections to the provider, which several gateways may share."""
    notes: list[str] = field(default_factory=list)
    exceeded: list[str] = field(default_factory=list)
    totals: list[Totals] = field(default_factory=list)

    async def ask(
        self, path: str = "/v1/chat/completions", body: Any = None, **options: Any
    ) -> tuple[int, Any]:
        """Send a request with the job's key; returns the status and the decoded response."""
        options.setdefault("headers", {"Authorization": f"Bearer {self.gateway.token}"})
        body = chat() if body is None else body
        async with self.http.post(f"{self.url}{path}", json=body, **options) as response:
            return response.status, await response.json()

    async def settled(self) -> Totals:
        """What the job has spent after the gateway is closed."""
        await self.gateway.close()
        return self.totals[-1]

    async def spent_today(self) -> int:
        rows = await self.db.fetch_all("SELECT spent_nanousd FROM daily_spending")
        return sum(row["spent_nanousd"] for row in rows)


def chat(text: str = "hi", **options: Any) -> dict[str, Any]:
    return {"model": "priced", "messages": [{"role": "user", "content": text}], **options}


@asynccontextmanager
async def gateway_harness(
    db: Database,
    replies: Sequence[ModelReply] = (),
    *,
    api: Api = "openai",
    job_usd: float | None = None,
    day_usd: float | None = None,
    models: tuple[str, ...] = ("*",),
    provider_key: str = REAL_KEY,
    provider_url: str = "",
    key: str = REAL_KEY,
    allowed: Sequence[str] = ("127.0.0.0/8",),
    shared: aiohttp.ClientSession | None = None,
) -> AsyncIterator[GatewayHarness]:
    await _make_organization(db)
    account = Account(
        job_id=JOB,
        organization_id=ORGANIZATION,
        job_limit_nanousd=_nano(job_usd),
        day_limit_nanousd=_nano(day_usd),
    )
    notes: list[str] = []
    exceeded: list[str] = []
    totals: list[Totals] = []

    async def on_totals(_: Transaction, latest: Totals) -> None:
        totals.append(latest)

    async with (
        model_server(replies, key=provider_key) as provider,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
        nullcontext(shared) if shared else new_session(AllowList.parse(allowed)) as session,
    ):
        gateway = Gateway(
            Upstream(api=api, url=provider_url or provider.url, key=key, models=models),
            session=session,
            prices=Prices(PRICES),
            ledger=Ledger(db, account, on_totals),
            on_note=notes.append,
            on_budget_exceeded=exceeded.append,
        )
        server = await asyncio.get_running_loop().create_server(gateway.protocol, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield GatewayHarness(gateway, url, provider, db, http, session, notes, exceeded, totals)
        finally:
            server.close()
            await gateway.close()
            # One iteration of the event loop lets closing connections end.
            await asyncio.sleep(0)


def _nano(amount: float | None) -> int | None:
    return None if amount is None else round(amount * NANOUSD_PER_USD)


async def _make_organization(db: Database) -> None:
    row = await db.fetch_one("SELECT id FROM organizations WHERE id = :id", id=ORGANIZATION)
    if row is None:
        await db.transact(add, ORGANIZATION)
