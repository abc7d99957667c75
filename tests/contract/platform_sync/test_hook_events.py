"""What platforms told, as rows, and what that makes due, on both stores."""

from pathlib import Path

import pytest

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.forges.hooks import HookEvent
from agentjobs.git.remote import Remote
from agentjobs.platform_sync import hook_events
from agentjobs.platform_sync.claims import claim_sync_due, next_due_at
from agentjobs.platform_sync.hook_events import (
    DeliveryStatus,
    process_hook_events,
    prune_hook_events,
    record_hook_delivery,
)
from agentjobs.settings import load
from agentjobs.store.database import Database, Row, Transaction
from tests.support.platform_sync import SHOP, PlatformHouse, platform_house

PUSH = HookEvent("push", SHOP)


@pytest.fixture
async def at(database: Database, tmp_path: Path) -> PlatformHouse:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    found = await platform_house(database, settings, Remote("https://nowhere.example"))
    await found.connect()
    return found


async def told(at: PlatformHouse, delivery_id: str, hint: HookEvent | None) -> DeliveryStatus:
    return await record_hook_delivery(at.db, at.connection.id, delivery_id, hint)


async def resting(at: PlatformHouse, failures: int = 0) -> None:
    await at.execute(
        "UPDATE repos SET sync_due_at = :later, sync_failures = :failures",
        later=now_ms() + 3_600_000,
        failures=failures,
    )


async def made_due(at: PlatformHouse, delivery_id: str, hint: HookEvent) -> bool:
    await told(at, delivery_id, hint)
    await at.loop.process_hook_events()
    return await at.wait_seconds() <= 0


async def test_a_delivery_is_noted_once_and_wakes_who_waits(at: PlatformHouse) -> None:
    with at.db.changes.listen("forges") as signal:
        assert await told(at, "one", PUSH) == "new"
        assert await signal.wait(5)
    assert await told(at, "one", PUSH) == "known"
    assert await told(at, "one", HookEvent("repository", SHOP)) == "known"
    assert await told(at, "two", None) == "unconnected"
    # Of what is not connected nothing is kept, however often it is told.
    assert await told(at, "three", HookEvent("push", "999")) == "unconnected"
    assert len(await at.db.fetch_all("SELECT id FROM forge_hints")) == 1
    row = await at.db.fetch_one("SELECT hook_seen_at FROM forge_connections")
    assert row is not None
    assert now_ms() - row["hook_seen_at"] < 60_000


async def test_a_hint_makes_its_repository_due_and_is_done_with(at: PlatformHouse) -> None:
    await resting(at)
    assert await made_due(at, "one", PUSH)
    assert await process_hook_events(at.db) == 0
    await resting(at)
    assert not await made_due(at, "pull of others", HookEvent("pull", SHOP, 7))
    await at.opened(7)
    assert await made_due(at, "pull of ours", HookEvent("comment", SHOP, 7))
    await resting(at)
    await at.execute("UPDATE pulls SET state = 'merged'")
    assert not await made_due(at, "what is over", HookEvent("comment", SHOP, 7))
    assert await made_due(at, "all of the connection", HookEvent("repository"))


async def test_a_busy_repository_is_not_looked_at_for_every_push(at: PlatformHouse) -> None:
    await resting(at)
    await at.execute("UPDATE repos SET synced_at = :now", now=now_ms())
    assert not await made_due(at, "one", PUSH)
    assert 5 < await at.wait_seconds() <= 10


async def test_a_repository_in_trouble_keeps_its_backoff(at: PlatformHouse) -> None:
    await resting(at, failures=3)
    assert not await made_due(at, "one", PUSH)
    assert await made_due(at, "two", HookEvent("repository", SHOP))


async def test_a_flood_is_worked_off_a_hundred_at_a_time(at: PlatformHouse) -> None:
    for number in range(130):
        await told(at, str(number), PUSH)
    await resting(at)
    assert await at.loop.process_hook_events()
    assert await at.wait_seconds() <= 0
    assert not await at.loop.process_hook_events()
    assert await process_hook_events(at.db) == 0


async def test_a_hint_that_fails_holds_up_no_other_and_is_given_up_in_the_end(
    at: PlatformHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = hook_events._mark

    async def failing(tx: Transaction, connection_id: str, hint: HookEvent) -> None:
        if hint.kind == "repository":
            raise ValueError("a fault of ours")
        await mark(tx, connection_id, hint)

    monkeypatch.setattr(hook_events, "_mark", failing)
    await resting(at)
    await told(at, "bad", HookEvent("repository", SHOP))
    assert await made_due(at, "good", PUSH)
    assert await process_hook_events(at.db) == 0
    for _ in range(hook_events.MOST_TRIES):
        await at.execute("UPDATE forge_hints SET due_at = 1 WHERE due_at IS NOT NULL")
        await at.loop.process_hook_events()
    row = await at.db.fetch_one("SELECT due_at, error FROM forge_hints WHERE tries > 0")
    assert row is not None
    assert (row["due_at"], row["error"]) == (None, "ValueError: a fault of ours")


async def test_only_the_repository_that_hooks_speak_of_is_polled_rarely(at: PlatformHouse) -> None:
    at.is_seen_as("42", full_name="acme/other")
    await at.connect("acme/other")
    for delivery_id, hint in (("one", PUSH), ("two", HookEvent("repository"))):
        await told(at, delivery_id, hint)
    seen = {row["external_id"]: row["hook_seen_at"] for row in await repos(at)}
    assert seen["42"] is None
    assert now_ms() - seen[SHOP] < 60_000
    found = {}
    while (due := await claim_sync_due(at.db)) is not None:
        found[due.repo.external_id] = next_due_at(due, 300, 0)
    assert found == {SHOP: 3_600_000, "42": 300_000}
    # What was signed with an old secret says nothing about today's.
    await at.execute("UPDATE forge_connections SET hook_seen_at = NULL")
    await at.execute("UPDATE repos SET sync_due_at = 1 WHERE external_id = :id", id=SHOP)
    due = await claim_sync_due(at.db)
    assert due is not None
    assert next_due_at(due, 300, 0) == 300_000


async def repos(at: PlatformHouse) -> list[Row]:
    return await at.db.fetch_all("SELECT * FROM repos")


async def test_hints_are_forgotten_after_a_day_but_not_before_they_are_done_with(
    at: PlatformHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told(at, "one", PUSH)
    await process_hook_events(at.db)
    await told(at, "two", PUSH)
    assert await prune_hook_events(at.db) == 0
    assert await prune_hook_events(at.db, now_ms() + DAY_MS + 1000) == 1
    assert len(await at.db.fetch_all("SELECT id FROM forge_hints")) == 1
    # Of very many the oldest go earlier.
    monkeypatch.setattr(hook_events, "MOST_REMEMBERED", 0)
    assert await prune_hook_events(at.db) == 0
    await process_hook_events(at.db)
    assert await prune_hook_events(at.db) == 1
