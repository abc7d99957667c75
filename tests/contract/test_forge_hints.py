"""What platforms told, as rows, and what that makes due, on both stores."""

from pathlib import Path

import pytest

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.forges import hints
from agentjobs.forges.hints import claim_hint, fail_hint, finish_hint, note_delivery, prune_hints
from agentjobs.forges.hooks import Hint
from agentjobs.git.remote import Remote
from agentjobs.settings import load
from agentjobs.store.database import Database
from tests.platform_house import SHOP, PlatformHouse, platform_house

PUSH = Hint("push", SHOP)


@pytest.fixture
async def at(database: Database, tmp_path: Path) -> PlatformHouse:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    found = await platform_house(database, settings, Remote("https://nowhere.example"))
    await found.connect()
    return found


async def told(at: PlatformHouse, delivery_id: str, hint: Hint | None) -> bool:
    return await note_delivery(at.db, at.connection.id, delivery_id, hint)


async def resting(at: PlatformHouse, failures: int = 0) -> None:
    await at.execute(
        "UPDATE repos SET sync_due_at = :later, sync_failures = :failures",
        later=now_ms() + 3_600_000,
        failures=failures,
    )


async def made_due(at: PlatformHouse, delivery_id: str, hint: Hint) -> bool:
    await told(at, delivery_id, hint)
    await at.loop.work_off_hints()
    return await at.wait_seconds() <= 0


async def test_a_delivery_is_noted_once_and_wakes_who_waits(at: PlatformHouse) -> None:
    with at.db.changes.listen("forges") as signal:
        assert await told(at, "one", PUSH)
        assert await signal.wait(5)
    assert not await told(at, "one", PUSH)
    assert not await told(at, "one", Hint("repository", SHOP))
    assert await told(at, "two", None)
    assert len(await at.db.fetch_all("SELECT id FROM forge_hints")) == 1
    row = await at.db.fetch_one("SELECT hook_seen_at FROM forge_connections")
    assert row is not None
    assert now_ms() - row["hook_seen_at"] < 60_000


async def test_a_hint_makes_its_repository_due_and_is_done_with(at: PlatformHouse) -> None:
    await resting(at)
    assert await made_due(at, "one", PUSH)
    assert await claim_hint(at.db) is None
    await resting(at)
    assert not await made_due(at, "other repository", Hint("push", "999"))
    assert not await made_due(at, "pull of others", Hint("pull", SHOP, 7))
    await at.opened(7)
    assert await made_due(at, "pull of ours", Hint("comment", SHOP, 7))
    await resting(at)
    assert await made_due(at, "all of the connection", Hint("repository"))


async def test_a_busy_repository_is_not_looked_at_for_every_push(at: PlatformHouse) -> None:
    await resting(at)
    await at.execute("UPDATE repos SET synced_at = :now", now=now_ms())
    assert not await made_due(at, "one", PUSH)
    assert 5 < await at.wait_seconds() <= 10


async def test_a_repository_in_trouble_keeps_its_backoff(at: PlatformHouse) -> None:
    await resting(at, failures=3)
    assert not await made_due(at, "one", PUSH)
    assert await made_due(at, "two", Hint("repository", SHOP))


async def test_a_claimed_hint_comes_back_and_is_given_up_in_the_end(at: PlatformHouse) -> None:
    await told(at, "one", PUSH)
    for tries in range(1, hints.MOST_TRIES + 1):
        await at.execute("UPDATE forge_hints SET due_at = 1 WHERE due_at IS NOT NULL")
        claimed = await claim_hint(at.db)
        assert claimed is not None
        assert (claimed.hint, claimed.tries) == (PUSH, tries)
        # Whoever has it may be killed now: nobody else gets it for a minute.
        assert await claim_hint(at.db) is None
        await fail_hint(at.db, claimed, "reason")
    row = await at.db.fetch_one("SELECT due_at, error FROM forge_hints")
    assert row is not None
    assert (row["due_at"], row["error"]) == (None, "reason")


async def test_hints_are_forgotten_after_a_day_but_not_before_they_are_done_with(
    at: PlatformHouse,
) -> None:
    for delivery_id in ("one", "two"):
        await told(at, delivery_id, PUSH)
    claimed = await claim_hint(at.db)
    assert claimed is not None
    await finish_hint(at.db, claimed)
    assert await prune_hints(at.db) == 0
    assert await prune_hints(at.db, now_ms() + DAY_MS + 1000) == 1
    assert len(await at.db.fetch_all("SELECT id FROM forge_hints")) == 1
