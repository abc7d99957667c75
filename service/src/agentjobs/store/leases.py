"""Leases: work is claimed for a limited time, and the claim is renewed while the work continues.

A `DueColumn` is queue, lease and backoff in one column: a row is due once the time in it has
passed, a claim moves that time to the end of the lease, and the stored time identifies the claim.
With a column of its own for the lease, a row that is made due meanwhile stays claimed.
Jobs and deliveries have fence numbers instead.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from agentjobs.store.database import Database, Row, StoreUnavailable, Transaction
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.protocol.errors import ClaimLost

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DueColumn:
    """`key` is the column that identifies a row of `table`."""

    table: str
    key: str
    column: str
    lease_ms: int
    lease_column: str | None = None

    async def claim(self, tx: Transaction, row_id: str) -> int:
        """Claim a row that the caller has locked; returns when the lease ends."""
        until = await tx.clock_ms() + self.lease_ms
        lease = f", {self.lease_column} = :until" if self.lease_column else ""
        await tx.execute(
            f"UPDATE {self.table} SET {self.column} = :until{lease} WHERE {self.key} = :id",
            id=row_id,
            until=until,
        )
        return until

    async def move(self, tx: Transaction, row_id: str, held_until: int, due_at: int | None) -> bool:
        """False if the claim was lost, or without a lease column if the row was made due."""
        values = f"{self.column} = :due_at"
        if self.lease_column:
            values = (
                f"{self.column} = CASE WHEN {self.column} = :held_until"
                f" THEN CAST(:due_at AS BIGINT) ELSE {self.column} END,"
                f" {self.lease_column} = CAST(:due_at AS BIGINT)"
            )
        changed = await tx.execute(
            f"UPDATE {self.table} SET {values}"
            f" WHERE {self.key} = :id AND {self.lease_column or self.column} = :held_until",
            id=row_id,
            held_until=held_until,
            due_at=due_at,
        )
        return bool(changed)


class NamedLease:
    """A lease by name, in the table `leases`: a role of the fleet, or changes to one repository.

    A role is also due at a time, which `release` sets.
    """

    def __init__(self, db: Database, name: str, lease_ms: int) -> None:
        self._db = db
        self._name = name
        self._lease_ms = lease_ms
        # Identifies the claim.
        self._until = 0

    async def claim(self, *, even_if_not_due: bool = False) -> bool:
        """False while another process holds it, or before it is due."""
        return await self._hold(
            "INSERT INTO leases (name, held_until) VALUES (:name, :until)"
            " ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until"
            " WHERE leases.held_until <= :now"
            f"{'' if even_if_not_due else ' AND leases.due_at <= :now'} RETURNING held_until"
        )

    async def renew(self) -> bool:
        """False if it was lost."""
        return await self._hold(
            "UPDATE leases SET held_until = :until"
            " WHERE name = :name AND held_until = :held_until RETURNING held_until"
        )

    async def release(self, due_in_ms: int | None = None, *topics: str) -> None:
        """If `due_in_ms` is None, the lease may be claimed at once, and its row is deleted."""
        await self._db.transact(self._release, due_in_ms, topics)

    async def _hold(self, sql: str) -> bool:
        async def hold(tx: Transaction) -> Row | None:
            now = await tx.clock_ms()
            values = {"until": now + self._lease_ms, "now": now, "held_until": self._until}
            return await tx.fetch_one(sql, name=self._name, **values)

        row = await self._db.transact(hold)
        if row is not None:
            self._until = row["held_until"]
        return row is not None

    async def _release(
        self, tx: Transaction, due_in_ms: int | None, topics: tuple[str, ...]
    ) -> None:
        held = "name = :name AND held_until = :held_until"
        values = {"name": self._name, "held_until": self._until}
        if due_in_ms is None:
            await tx.execute(f"DELETE FROM leases WHERE {held}", **values)
        else:
            await tx.execute(
                f"UPDATE leases SET held_until = 0, due_at = :due_at WHERE {held}",
                due_at=await tx.clock_ms() + due_in_ms,
                **values,
            )
        tx.announce(*topics)


class Lease:
    """One claim on one row, held until `until`."""

    def __init__(self, db: Database, due: DueColumn, row_id: str, until: int) -> None:
        self.until = until
        self._db = db
        self._due = due
        self.row_id = row_id

    async def renew(self) -> bool:
        until = await self._db.transact(self._renew)
        self.until = until or self.until
        return until is not None

    async def release(self, due_at: int | None) -> None:
        """Make the row due at that time; a row that was made due in the meantime stays due."""
        await self._db.transact(self.move, due_at)

    async def move(self, tx: Transaction, due_at: int | None) -> bool:
        return await self._due.move(tx, self.row_id, self.until, due_at)

    async def _renew(self, tx: Transaction) -> int | None:
        until = await tx.clock_ms() + self._due.lease_ms
        return until if await self.move(tx, until) else None


async def run_renewing(
    work: Coroutine[Any, Any, T],
    renew: Callable[[], Awaitable[bool]],
    every_seconds: float,
    lease_ms: int,
) -> T:
    """Return the result of the work. Cancel it and raise ClaimLost once `renew` returns False.

    A lease outlasts a short outage of the store, but the work never outlasts the lease: a process
    with another connection may have it by then.
    """
    task = asyncio.create_task(work)
    clock = asyncio.get_running_loop().time
    ends_at = clock() + lease_ms / SECOND_MS
    try:
        while True:
            await asyncio.wait({task}, timeout=min(every_seconds, ends_at - clock()))
            if task.done():
                return await task
            began_at = clock()
            with suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout_at(ends_at):
                    if not await renew():
                        raise ClaimLost
                ends_at = began_at + lease_ms / SECOND_MS
            if clock() >= ends_at:
                raise ClaimLost
    finally:
        task.cancel()
        await asyncio.wait({task})


def backoff_ms(failures: int, first_ms: int, max_ms: int) -> int:
    """The wait after a failure that follows `failures` consecutive ones."""
    return int(min(first_ms * 2 ** min(failures, 20), max_ms))
