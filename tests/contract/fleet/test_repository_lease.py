"""Changes to one repository run one after the other, whichever process makes them."""

import asyncio

import pytest

from agentjobs.fleet import repository_lease
from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Transaction


async def test_changes_to_one_repository_are_serialized(database: Database) -> None:
    order: list[str] = []
    entered, may_leave = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with changing_repository(database, "repo_1"):
            entered.set()
            await may_leave.wait()
            order.append("first")

    async def second() -> None:
        async with changing_repository(database, "repo_1"):
            order.append("second")

    running = asyncio.create_task(first())
    await entered.wait()
    waiting = asyncio.create_task(second())
    # Another repository is not held up.
    async with changing_repository(database, "repo_2"):
        order.append("other")
    may_leave.set()
    await asyncio.gather(running, waiting)
    assert order == ["other", "first", "second"]
    assert await database.fetch_all("SELECT * FROM leases") == []


async def test_a_change_that_fails_frees_the_repository(database: Database) -> None:
    with pytest.raises(ValueError, match="a bug"):
        async with changing_repository(database, "repo_1"):
            raise ValueError("a bug")
    async with changing_repository(database, "repo_1"):
        pass


async def test_a_wait_that_takes_too_long_is_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with changing_repository(database, "repo_1"):
        monkeypatch.setattr(repository_lease, "_MAX_WAIT_SECONDS", 0.05)
        with pytest.raises(Problem) as refused:
            async with changing_repository(database, "repo_1"):
                pass
    assert refused.value.code == "unavailable"


async def test_a_change_stops_when_its_lease_is_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_lease, "_RENEW_SECONDS", 0.01)

    async def lose(tx: Transaction) -> None:
        await tx.execute("DELETE FROM leases")

    async def change() -> None:
        async with changing_repository(database, "repo_1"):
            await database.transact(lose)
            await asyncio.Event().wait()

    with pytest.raises(Problem) as lost:
        await change()
    assert lost.value.code == "unavailable"
