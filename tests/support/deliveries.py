"""A harness for tests of deliveries: endpoints and events in a store, without any network."""

from dataclasses import dataclass, field
from typing import Any

from agentjobs.organizations.organizations import Organization
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.concurrency import AttemptKind, ScanCursor, Slots
from agentjobs.webhooks.events import JOB_QUEUED, JobEvent, record_events
from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs.webhooks.queue import LeaseTerms, claim
from agentjobs.webhooks.record import FinishedAttempt, record
from agentjobs.webhooks.retries import decide_outcome
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id

LEASE_MS = 30_000
RETRY_SECONDS = (5, 60, 720)
DISABLE_DAYS = 5.0


async def record_event(tx: Transaction, /, event: str, **fields: Any) -> None:
    await record_events(tx, [JobEvent(event=event, **fields)])


def attempt(
    status_code: int | None = 200, *, at: int | None = None, headers: Any = (), error: Any = None
) -> Attempt:
    failed = None if status_code is not None and status_code < 300 else "http_status"
    return Attempt(
        at=now_ms() if at is None else at,
        duration_ms=7,
        request_headers=(("Host", "receiver.example"),),
        address="203.0.113.7:443",
        status_code=status_code,
        response_headers=tuple(headers),
        response_body=b"noted",
        error_class=error or failed,
        error=None if failed is None else "it did not go well",
    )


def organization_with_id(organization_id: str) -> Organization:
    """An organization as `DeliveryHarness.organization` creates it: its name is its ID."""
    return Organization(organization_id, organization_id, "enterprise", 0)


@dataclass
class DeliveryHarness:
    """The deliveries of one store, claimed and recorded by `sender`."""

    db: Database
    slots: Slots = field(default_factory=lambda: Slots(100, 8))
    sender: str = "snd_a"
    cursors: dict[AttemptKind, ScanCursor] = field(
        default_factory=lambda: {"first": ScanCursor(), "retry": ScanCursor()}
    )

    async def organization(self, organization_id: str = "org_a") -> str:
        await self.db.transact(_insert_organization, organization_id)
        return organization_id

    async def endpoint(self, organization_id: str, *, events: str = "[]") -> str:
        endpoint_id = new_id("whk")
        await self.db.transact(_insert_endpoint, endpoint_id, organization_id, events)
        return endpoint_id

    async def event(
        self, organization_id: str, job_id: str, sequence: int = 1, event: str = JOB_QUEUED
    ) -> None:
        await self.db.transact(
            record_event,
            event,
            organization_id=organization_id,
            job_id=job_id,
            sequence=sequence,
            repo="acme/shop",
            pr_url=None,
            at_ms=now_ms(),
        )

    async def claim(self, *, now: int | None = None, **terms: Any) -> list[ClaimedDelivery]:
        return await self._claim("first", now, terms)

    async def claim_retries(self, *, now: int | None = None) -> list[ClaimedDelivery]:
        return await self._claim("retry", now, {})

    async def record(self, *attempts: tuple[ClaimedDelivery, Attempt]) -> None:
        finished = [
            FinishedAttempt(
                delivery, attempt, decide_outcome(attempt, delivery.failures, RETRY_SECONDS)
            )
            for delivery, attempt in attempts
        ]
        await self.db.transact(record, finished, owner=self.sender, disable_days=DISABLE_DAYS)

    async def statuses(self) -> dict[str, str]:
        rows = await self.db.fetch_all("SELECT id, status FROM deliveries ORDER BY id")
        return {row["id"]: row["status"] for row in rows}

    async def row(self, delivery_id: str) -> Any:
        return await self.db.fetch_one("SELECT * FROM deliveries WHERE id = :id", id=delivery_id)

    async def endpoint_row(self, endpoint_id: str) -> Any:
        sql = "SELECT * FROM webhook_endpoints WHERE id = :id"
        return await self.db.fetch_one(sql, id=endpoint_id)

    async def change_endpoint(self, endpoint_id: str, **columns: Any) -> None:
        await self.db.transact(_update_endpoint, endpoint_id, columns)

    async def expire_leases(self) -> None:
        await self.db.transact(_age_leases)

    async def _claim(
        self, kind: AttemptKind, now: int | None, terms: dict[str, Any]
    ) -> list[ClaimedDelivery]:
        # As a sender: the clock of the database may be a millisecond ahead of this machine's.
        moment = await self.db.clock_ms() if now is None else now
        how = LeaseTerms(owner=self.sender, lease_ms=LEASE_MS, now=moment, **terms)
        claimed = await self.db.transact(claim, kind, self.slots, how, self.cursors[kind])
        return [delivery for _, delivery in claimed.deliveries]


async def _insert_organization(tx: Transaction, organization_id: str) -> None:
    await tx.execute(
        "INSERT INTO organizations (id, name, plan, created_at) VALUES (:id, :id, 'enterprise', 0)",
        id=organization_id,
    )


async def _insert_endpoint(
    tx: Transaction, endpoint_id: str, organization_id: str, events: str
) -> None:
    await tx.execute(
        "INSERT INTO webhook_endpoints (id, organization_id, url, events, sealed, key_id,"
        " created_at, updated_at)"
        " VALUES (:id, :organization_id, :url, :events, :sealed, 'k', 0, 0)",
        id=endpoint_id,
        organization_id=organization_id,
        url=f"https://receiver.example/{endpoint_id}",
        events=events,
        sealed=b"sealed",
    )


async def _update_endpoint(tx: Transaction, endpoint_id: str, columns: dict[str, Any]) -> None:
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    await tx.execute(
        f"UPDATE webhook_endpoints SET {assignments} WHERE id = :endpoint_id",
        endpoint_id=endpoint_id,
        **columns,
    )


async def _age_leases(tx: Transaction) -> None:
    await tx.execute("UPDATE deliveries SET lease_expires_at = 1 WHERE lease_owner IS NOT NULL")
