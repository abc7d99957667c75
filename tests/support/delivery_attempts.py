"""A webhook client with defaults for tests, and one delivery to send."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from agentjobs.webhooks.attempt import WebhookClient
from agentjobs.webhooks.model import Attempt
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import Lookup, system_lookup
from tests.support.bad_receivers import Authority, Behaviour, Receiver, receiver

SETTING = "AGENTJOBS_WEBHOOKS_ALLOW"
LOOPBACK = AllowList.parse(["127.0.0.0/8"], SETTING)
NOTHING = AllowList.parse([], SETTING)
HEADERS = {"X-Service-Event": "job.queued", "Content-Type": "application/json"}
AT_MS = 1_700_000_000_000
BODY = b'{"event": "job.queued"}'

Run = Callable[[Coroutine[Any, Any, None]], None]
# The service runs on uvloop; the two report failures differently.
LOOPS: tuple[Run, ...] = (asyncio.run, uvloop.run)


@asynccontextmanager
async def webhook_client(
    allowed: AllowList = LOOPBACK,
    *,
    authority: Authority | None = None,
    proxy: str = "",
    timeout_seconds: float = 60,
    connect_seconds: float = 30,
    lookup: Lookup = system_lookup,
) -> AsyncIterator[WebhookClient]:
    client = WebhookClient(
        allowed,
        ca_file=str(authority.file) if authority else "",
        proxy=proxy,
        timeout_seconds=timeout_seconds,
        connect_seconds=connect_seconds,
        lookup=lookup,
    )
    try:
        yield client
    finally:
        await client.close()


async def send(client: WebhookClient, url: str, endpoint: str = "whk_1") -> Attempt:
    async with asyncio.timeout(100):
        return await client.post(endpoint, url, HEADERS, BODY, at_ms=AT_MS)


async def one_attempt(behaviour: Behaviour, **options: Any) -> tuple[Attempt, Receiver]:
    async with receiver(behaviour) as served, webhook_client(**options) as client:
        return await send(client, served.url()), served
