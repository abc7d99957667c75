"""Changes to one repository run one after the other, whichever process makes them."""

import asyncio
import time

import pytest

from agentjobs.fleet import repository_lease
from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import NamedLease
from agentjobs_runtime.problems import Problem


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


async def test_a_change_stops_before_its_lease_ends_while_the_store_hangs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: NamedLease) -> bool:
        return await asyncio.Event().wait()

    monkeypatch.setattr(repository_lease, "_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(repository_lease, "_MAX_UNRENEWED_SECONDS", 0.05, raising=False)
    monkeypatch.setattr(NamedLease, "renew", hang)
    with pytest.raises(Problem) as stopped:
        async with asyncio.timeout(30), changing_repository(database, "repo_1"):
            await asyncio.Event().wait()
    assert stopped.value.code == "unavailable"


async def test_a_change_does_not_begin_if_its_lease_was_granted_too_late(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = NamedLease.claim

    async def claim_late(lease: NamedLease) -> bool:
        is_held = await claim(lease)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + 13)
        return is_held

    monkeypatch.setattr(NamedLease, "claim", claim_late)
    with pytest.raises(Problem) as stopped:
        async with asyncio.timeout(30), changing_repository(database, "repo_1"):
            await asyncio.Event().wait()
    assert stopped.value.code == "unavailable"


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
