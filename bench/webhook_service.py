"""The webhook part of a service in its own process: it writes events and sends them.

The sender is the service's own (`loops/delivery_loop`) with its default settings.
"""

import asyncio
import contextlib
import gc
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import asyncpg

from agentjobs.loops.delivery_loop import run_sender
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs.webhooks.allowed_addresses import configured_allow_list
from agentjobs.webhooks.events import JOB_QUEUED
from agentjobs.webhooks.registration import add_endpoint
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.settings import Settings, load
from tests.support.deliveries import record_event
from tests.support.stores import add

REPO = "acme/shop"
_LOOK_AGAIN_SECONDS = 0.02
# Both use an index, so that polling is cheap.
_IS_DONE = (
    "SELECT NOT EXISTS (SELECT 1 FROM deliveries WHERE lease_owner IS NOT NULL)"
    " AND NOT EXISTS (SELECT 1 FROM deliveries WHERE status = 'pending'"
    " AND lease_owner IS NULL AND attempts = 0) AS is_done"
)
# The same number and size as in a delivery.
_HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": "agentjobs/1.0.0",
    "Accept-Encoding": "identity",
    "X-Service-Event": JOB_QUEUED,
    "X-Service-Delivery": "dlv_" + "0" * 26,
    "X-Service-Sequence": "1",
    "X-Service-Signature-256": "sha256=" + "0" * 64,
    "webhook-id": "evt_" + "0" * 26,
    "webhook-timestamp": "1700000000",
    "webhook-signature": "v1," + "0" * 44,
}


@dataclass(frozen=True)
class Place:
    """A store with organizations and the URLs of their endpoints."""

    database_url: str
    data_dir: str
    organizations: Mapping[str, Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> Settings:
        given = {**self.environment, "AGENTJOBS_WEBHOOKS_ALLOW": "127.0.0.0/8"}
        return load({**given, "AGENTJOBS_DATABASE_URL": self.database_url}, data_dir=self.data_dir)

    def urls(self) -> list[str]:
        return list(itertools.chain.from_iterable(self.organizations.values()))


@dataclass(frozen=True)
class Event:
    """An event to write this many seconds after the start."""

    after_seconds: float
    organization_id: str
    job_id: str
    sequence: int
    event: str = JOB_QUEUED


Commits = dict[tuple[str, int], int]


class Service:
    def __init__(self, place: Place, db: Database) -> None:
        self._place = place
        self._settings = place.settings()
        self._db = db

    async def emit(self, events: Sequence[Event]) -> Commits:
        """The commit time of each event, by job and sequence. Events do not wait for each other."""
        began = time.monotonic()
        writing = []
        for event in events:
            await asyncio.sleep(max(0.0, began + event.after_seconds - time.monotonic()))
            writing.append(asyncio.create_task(self._write(event)))
        return dict(await asyncio.gather(*writing))

    async def fill(self, jobs: int) -> None:
        """Queue one event per job, alternating between organizations."""
        organizations = itertools.cycle(self._place.organizations)
        await self.emit([Event(0, next(organizations), new_id("job"), 1) for _ in range(jobs)])

    async def drain(self) -> float:
        """Seconds until a new sender has sent and recorded all waiting deliveries."""
        async with run_sender(self._db, self._settings, self._allowed(), asyncio.Event()):
            began = time.monotonic()
            while not await self._is_done():  # noqa: ASYNC110 - the store has no event for it
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            return time.monotonic() - began

    async def settle_in(self) -> None:
        """Update the statistics, as autovacuum does within a minute."""
        if self._db.engine == "postgresql":
            connection = await asyncpg.connect(self._place.database_url)
            try:
                await connection.execute("VACUUM ANALYZE")
            finally:
                await connection.close()

    async def post(self, count: int) -> float:
        """Seconds for as many plain POSTs with the same concurrency, without recording."""
        urls = itertools.islice(itertools.cycle(self._place.urls()), count)
        workers = self._settings.webhook_concurrency
        body = await self._a_body()
        connector = aiohttp.TCPConnector(limit=workers)
        began = time.monotonic()
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(_post(session, urls, body) for _ in range(workers)))
        return time.monotonic() - began

    async def _write(self, event: Event) -> tuple[tuple[str, int], int]:
        await self._db.transact(
            record_event,
            event.event,
            organization_id=event.organization_id,
            job_id=event.job_id,
            sequence=event.sequence,
            repo=REPO,
            pr_url=None,
            at_ms=now_ms(),
        )
        return (event.job_id, event.sequence), time.monotonic_ns()

    async def _a_body(self) -> bytes:
        row = await self._db.fetch_one("SELECT body FROM events LIMIT 1")
        assert row is not None
        return bytes(row["body"])

    async def _is_done(self) -> bool:
        row = await self._db.fetch_one(_IS_DONE)
        return row is not None and bool(row["is_done"])

    def _allowed(self) -> AllowList:
        return configured_allow_list(self._settings)


async def _post(session: aiohttp.ClientSession, urls: Iterator[str], body: bytes) -> None:
    for url in urls:
        async with session.post(url, data=body, headers=_HEADERS) as answer:
            await answer.read()


@contextlib.asynccontextmanager
async def writing_service(place: Place) -> AsyncIterator[Service]:
    """Does not send by itself."""
    db = await open_database(place.database_url, migrate=False)
    # Every service does this at start.
    gc.collect()
    gc.freeze()
    try:
        yield Service(place, db)
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def sending_service(place: Place) -> AsyncIterator[Service]:
    async with writing_service(place) as service:
        # Do not wait for a hanging receiver at the end.
        force_stop = asyncio.Event()
        force_stop.set()
        async with run_sender(service._db, service._settings, service._allowed(), force_stop):
            yield service


async def make_place(place: Place) -> None:
    """The store with its schema, organizations and endpoints."""
    settings = place.settings()
    keys = SealingKeys.load(settings)
    db = await open_database(place.database_url, migrate=True)
    try:
        for organization, urls in place.organizations.items():
            await db.transact(add, organization)
            for url in urls:
                allowed = configured_allow_list(settings)
                await add_endpoint(db, keys, organization, url, allowed=allowed)
    finally:
        await db.close()
