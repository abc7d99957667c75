"""Leases by name, and due times with a lease of their own."""

from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import HeldLease, NamedLease

LEASE = NamedLease("role:test", 10_000)


async def _expire(db: Database) -> None:
    async def update(tx: Transaction) -> None:
        await tx.execute("UPDATE leases SET held_until = 1")

    await db.transact(update)


async def test_only_one_process_holds_a_lease(database: Database) -> None:
    until = await database.transact(LEASE.claim)
    assert until is not None
    assert await database.transact(LEASE.claim) is None
    assert await database.transact(LEASE.claim, even_if_not_due=True) is None
    assert await database.transact(NamedLease("role:other", 10_000).claim) is not None


async def test_a_lease_that_ended_belongs_to_the_next_holder(database: Database) -> None:
    first = await database.transact(LEASE.claim)
    assert first is not None
    held = HeldLease(database, LEASE, first)
    assert await held.renew()
    await _expire(database)
    # The end of a lease identifies it; a real one ends seconds before the next begins.
    other = NamedLease(LEASE.name, 20_000)
    assert await database.transact(other.claim) is not None
    assert not await held.renew()
    # Its former holder releases nothing.
    await held.release(0)
    assert await database.transact(LEASE.claim) is None


async def test_a_released_lease_may_be_claimed_at_once_or_when_it_is_due(
    database: Database,
) -> None:
    until = await database.transact(LEASE.claim)
    assert until is not None
    await database.transact(LEASE.release, until)
    assert await database.fetch_all("SELECT * FROM leases") == []
    until = await database.transact(LEASE.claim)
    assert until is not None
    await database.transact(LEASE.release, until, 60_000)
    assert await database.transact(LEASE.claim) is None
    assert await database.transact(LEASE.claim, even_if_not_due=True) is not None
