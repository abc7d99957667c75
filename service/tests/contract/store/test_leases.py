"""Leases by name, and due times with a lease of their own."""

from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import NamedLease


def _lease(db: Database, name: str = "role:test", lease_ms: int = 10_000) -> NamedLease:
    return NamedLease(db, name, lease_ms)


async def _expire(db: Database) -> None:
    async def update(tx: Transaction) -> None:
        await tx.execute("UPDATE leases SET held_until = 1")

    await db.transact(update)


async def test_only_one_process_holds_a_lease(database: Database) -> None:
    assert await _lease(database).claim()
    assert not await _lease(database).claim()
    assert not await _lease(database).claim(even_if_not_due=True)
    assert await _lease(database, "role:other").claim()


async def test_a_lease_that_ended_belongs_to_the_next_holder(database: Database) -> None:
    held = _lease(database)
    assert await held.claim()
    assert await held.renew()
    await _expire(database)
    # The end of a lease identifies it; a real one ends seconds before the next begins.
    assert await _lease(database, lease_ms=20_000).claim()
    assert not await held.renew()
    # Its former holder releases nothing.
    await held.release(0)
    assert not await _lease(database).claim()


async def test_a_released_lease_may_be_claimed_at_once_or_when_it_is_due(
    database: Database,
) -> None:
    lease = _lease(database)
    assert await lease.claim()
    await lease.release()
    assert await database.fetch_all("SELECT * FROM leases") == []
    assert await lease.claim()
    await lease.release(60_000)
    assert not await lease.claim()
    assert await lease.claim(even_if_not_due=True)
