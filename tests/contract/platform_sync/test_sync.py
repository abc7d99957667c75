"""What happens on a platform is followed, on both stores; git is real, the platform is ours."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.forges.hooks import HookEvent
from agentjobs.forges.protocol import ForgeError
from agentjobs.inventory.indexing import claim_due
from agentjobs.platform_sync import pulls, sync
from agentjobs.platform_sync.claims import DUE, claim_sync_due
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.platform_sync.pulls import CommentDeferred
from agentjobs.settings import load
from agentjobs.store.database import Database
from tests.support.platform_sync import SHOP, PlatformHouse, platform_house
from tests.support.stores import until
from tests.support.workspace import House, open_house, run_git


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as house:
        yield house


@pytest.fixture
async def at(database: Database, tmp_path: Path, house: House) -> PlatformHouse:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    found = await platform_house(database, settings, house.remote)
    await found.connect()
    return found


def head_of(copy: str, branch: str) -> str:
    return run_git(Path(copy), "rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False)


async def test_the_first_look_brings_a_copy_and_an_index_later_ones_what_is_new(
    at: PlatformHouse, house: House
) -> None:
    row = await at.look()
    first = house.origin.head("main")
    copy = at.copy(row)
    assert (row["head_commit"], row["sync_error"], row["sync_failures"]) == (first, None, 0)
    assert head_of(copy, "main") == first
    assert row["index_due_at"] <= now_ms()
    indexed = await claim_due(at.db)
    assert indexed is not None
    assert (indexed.id, indexed.head_commit) == (row["id"], first)
    assert 295 < await at.wait_seconds() <= 300
    await at.execute("UPDATE repos SET index_due_at = NULL")
    assert (await at.look())["index_due_at"] is None

    second = house.origin.commit({"new.py": b"import os\n"})
    row = await at.look()
    assert (row["head_commit"], head_of(copy, "main")) == (second, second)
    assert row["index_due_at"] is not None

    # History that was written anew is followed as it is.
    run_git(house.origin.clone, "reset", "-q", "--hard", str(first))
    rewritten = house.origin.commit({"other.py": b"import sys\n"})
    row = await at.look()
    assert (row["head_commit"], head_of(copy, "main")) == (rewritten, rewritten)

    # A branch that cannot stand beside the old one.
    house.origin.commit_as_is(branch="trunk")
    run_git(house.origin.bare, "update-ref", "-d", "refs/heads/main")
    nested = house.origin.commit_as_is(branch="main/next")
    at.is_seen_as(default_branch="main/next")
    row = await at.look()
    assert (row["default_branch"], row["head_commit"]) == ("main/next", nested)
    assert head_of(copy, "main/next") == nested
    assert head_of(copy, "main") == ""

    # A copy that was lost but for a part.
    shutil.rmtree(copy)
    (Path(copy) / "objects").mkdir(parents=True)
    await at.look()
    assert head_of(copy, "main/next") == nested


async def test_a_renamed_repository_is_followed_unless_its_name_is_taken(
    at: PlatformHouse,
) -> None:
    at.is_seen_as(full_name="acme/store")
    row = await at.look()
    assert (row["full_name"], row["sync_error"]) == ("acme/store", None)
    entry = await at.db.fetch_one("SELECT * FROM audit_log WHERE action = 'repo.renamed'")
    assert entry is not None
    assert entry["target"] == "acme/store"

    at.is_seen_as("42", full_name="acme/other")
    await at.connect("acme/other")
    at.is_seen_as(full_name="acme/other")
    row = await at.look()
    assert (row["full_name"], row["sync_failures"]) == ("acme/store", 0)
    assert "acme/other" in row["sync_error"]
    # git and the platform are asked by the name that leads there.
    assert at.hall.called == "acme/other"
    assert row["head_commit"]

    at.is_seen_as(full_name="../../etc")
    row = await at.look()
    assert row["full_name"] == "acme/store"
    assert "cannot name" in row["sync_error"]


async def test_a_repository_that_vanished_says_so_and_is_asked_for_rarely(
    at: PlatformHouse,
) -> None:
    await at.look()
    await at.execute("UPDATE repos SET index_status = 'ready', index_due_at = NULL")
    seen = at.hall.seen.pop(SHOP)
    waits = []
    for _ in range(9):
        row = await at.look()
        waits.append(round(await at.wait_seconds()))
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert "acme/shop is not there any more" in row["sync_error"]
    # It was indexed once, so it stays ready: one answer of its platform does not change that.
    assert (row["index_status"], row["index_error"], row["index_due_at"]) == ("ready", None, None)
    assert at.hall.asked["pull"] == 0

    # One that never was tells it by its index, and is indexed when it is back.
    await at.execute("UPDATE repos SET index_status = 'indexing'")
    row = await at.look()
    assert (row["index_status"], row["index_error"]) == ("indexing", row["sync_error"])
    at.hall.seen[SHOP] = seen
    row = await at.look()
    assert (row["sync_error"], row["sync_failures"], row["index_error"]) == (None, 0, None)
    assert row["index_due_at"] is not None


async def test_what_keeps_a_repository_from_being_used_is_said(
    at: PlatformHouse, house: House
) -> None:
    at.is_seen_as(is_archived=True)
    assert "archived" in (await at.look())["sync_error"]
    at.is_seen_as(is_archived=False, may_push=False)
    assert "push" in (await at.look())["sync_error"]
    at.is_seen_as(may_push=True, default_branch="")
    row = await at.look()
    assert "empty" in row["sync_error"]
    # Not a failure: the first push to it is heard at once.
    assert row["sync_failures"] == 0
    at.is_seen_as(default_branch="gone")
    assert "no branch 'gone'" in (await at.look())["sync_error"]
    at.is_seen_as(default_branch="--upload-pack=x")
    assert "name that git does not take" in (await at.look())["sync_error"]
    at.is_seen_as(default_branch="main")
    house.server.required_authorization = "Basic secret"
    row = await at.look()
    assert "acme/shop does not let us in" in row["sync_error"]
    assert str(house.server.server_port) not in row["sync_error"]


async def test_repositories_of_a_revoked_credential_back_off_together(at: PlatformHouse) -> None:
    at.is_seen_as("42", full_name="acme/other")
    await at.connect("acme/other")
    at.hall.faults["repository"] = ForgeError("Gitea refuses the token", "unauthorized")
    await at.look()
    assert at.hall.asked["repository"] == 2  # one of them was asked for to connect the other
    for external_id in (SHOP, "42"):
        row = await at.row(external_id)
        assert (row["sync_error"], row["sync_failures"]) == ("Gitea refuses the token", 1)
        assert row["sync_due_at"] > now_ms() + 20_000
    assert not await at.loop.sync_one()
    assert await connection_error(at) == "Gitea refuses the token"
    at.hall.faults.clear()
    await at.look()
    assert await connection_error(at) is None


async def connection_error(at: PlatformHouse) -> str | None:
    row = await at.db.fetch_one("SELECT error FROM forge_connections")
    assert row is not None
    error: str | None = row["error"]
    return error


async def test_a_platform_that_does_not_answer_is_asked_once_for_all(at: PlatformHouse) -> None:
    at.is_seen_as("42", full_name="acme/other")
    await at.connect("acme/other")
    at.hall.faults["repository"] = ForgeError("Gitea is busy", "away")
    await at.look()
    assert not await at.loop.sync_one()
    other = await at.row("42")
    assert (other["sync_error"], other["sync_failures"]) == (None, 0)
    assert await connection_error(at) is None
    # However many it has, they wait longer each time, together.
    waits = []
    for external_id in ("42", SHOP, "42"):
        await at.execute("UPDATE repos SET sync_due_at = 1 WHERE external_id = :id", id=external_id)
        await at.execute("UPDATE forge_connections SET resting_until = 1")
        assert await at.loop.sync_one()
        waits.append(await connection_rest(at))
    assert waits == [60, 120, 240]
    at.hall.faults.clear()
    await at.look()
    assert await connection_rest(at) == 0


async def connection_rest(at: PlatformHouse) -> int:
    row = await at.db.fetch_one("SELECT resting_until FROM forge_connections")
    assert row is not None
    return max(0, round(((row["resting_until"] or 0) - now_ms()) / SECOND_MS))


async def test_pull_requests_are_kept_as_they_are_there(at: PlatformHouse) -> None:
    for number in range(1, 6):
        await at.opened(number, draft=number in {1, 5})
    at.became(1, draft=False, title="A better\ntitle\x00", head_commit="c" * 40)
    at.became(2, state="merged")
    at.became(3, state="closed")
    del at.hall.pulls[4]
    at.became(5, draft=False, state="closed")
    row = await at.look()
    assert row["sync_error"] is None
    # Not found once is not removed: platforms are mistaken now and then.
    assert [(await at.pull(4))["state"], (await at.look())["sync_error"]] == ["open", None]
    assert [(await at.pull(4))["state"], (await at.look())["sync_error"]] == ["open", None]
    first = await at.pull(1)
    assert (first["title"], bool(first["draft"])) == ("A better title\ufffd", False)
    assert first["head_commit"] == "c" * 40
    states = [(await at.pull(number))["state"] for number in range(1, 6)]
    assert states == ["open", "merged", "closed", "closed", "closed"]
    assert (await at.pull(2))["merged_at"] is not None
    # Only what can still be reviewed is announced, and only once.
    assert at.ready == [1]
    at.hall.asked.clear()
    await at.look()
    assert at.ready == [1]
    assert at.hall.asked["pull"] == 1

    # It becomes a draft again, and is marked ready again.
    at.became(1, draft=True)
    await at.look()
    at.became(1, draft=False)
    await at.look()
    assert at.ready == [1, 1]

    # A closed one is asked about again when the platform tells of it, else once in an hour.
    at.became(3, state="open")
    at.became(5, state="open")
    await at.look()
    assert (await at.pull(3))["state"] == "closed"
    await at.told("one", HookEvent("pull", SHOP, 3))
    await at.look()
    third = await at.pull(3)
    assert (third["state"], third["closed_at"]) == ("open", None)
    assert (await at.pull(5))["state"] == "closed"
    await at.execute("UPDATE pulls SET asked_at = asked_at - 3600000 WHERE number = 5")
    await at.look()
    assert (await at.pull(5))["state"] == "open"


async def test_after_a_hint_only_that_is_asked_about(at: PlatformHouse) -> None:
    await at.look()
    for number in range(1, 71):
        await at.opened(number)
    asked = at.hall.asked
    asked.clear()
    await at.look()
    # The 50 newest and some of the others; those the next time.
    assert (asked["pull"], asked["comments"], asked["repository"]) == (60, 60, 1)
    await at.look()
    rows = await at.db.fetch_all("SELECT number FROM pulls WHERE asked_at IS NULL")
    assert rows == []

    asked.clear()
    at.says(3, 10, "please")
    await at.told("one", HookEvent("comment", SHOP, 3))
    await at.glance()
    assert (asked, at.heard) == ({"pull": 1, "comments": 1}, [("acme/shop", 3, "please")])
    asked.clear()
    await at.told("two", HookEvent("push", SHOP))
    await at.glance()
    assert asked == {"repository": 1, "open_remote": 1}
    # What is told while nobody is answered is not forgotten.
    at.hall.faults["pull"] = ForgeError("Gitea is busy", "away")
    await at.told("three", HookEvent("pull", SHOP, 4))
    row = await at.glance()
    assert (row["sync_error"], row["sync_failures"]) == ("Gitea is busy", 1)
    at.hall.faults.clear()
    asked.clear()
    row = await at.glance()
    assert (asked["pull"], row["sync_error"]) == (1, None)
    assert 200 < await at.wait_seconds() <= 300


async def test_a_look_ends_however_slow_the_platform_is(
    at: PlatformHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (sync, pulls):
        monkeypatch.setattr(room, "ANSWER_SECONDS", 0.5)
    await at.opened(1)
    await at.opened(2)
    answer = at.hall.comments

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    at.hall.comments = never  # type: ignore[assignment, method-assign]
    at.became(1, title="Other")
    row = await at.look()
    assert "slow" in row["sync_error"]
    # What could be read was; the others come first the next time.
    assert ((await at.pull(1))["title"], row["sync_failures"]) == ("Other", 0)
    at.hall.comments = answer  # type: ignore[method-assign]
    at.became(2, title="Other")
    await at.look()
    assert (await at.pull(2))["title"] == "Other"

    at.hall.repository = never  # type: ignore[assignment, method-assign]
    row = await at.look()
    assert "did not answer within" in row["sync_error"]
    assert await connection_rest(at) == 30


async def test_one_pull_request_in_trouble_does_not_hold_up_the_others(at: PlatformHouse) -> None:
    await at.opened(1)
    await at.opened(2)
    at.hall.faults["comments"] = ForgeError("Issues: read is missing", "denied")
    at.became(2, state="merged")
    row = await at.look()
    assert row["sync_error"] == "Issues: read is missing"
    assert (await at.pull(2))["state"] == "merged"
    assert row["head_commit"]


async def test_each_comment_is_heard_once_and_in_order(at: PlatformHouse) -> None:
    await at.opened(1)
    await at.opened(2)
    at.says(1, 11, "second")
    at.says(1, 10, "first")
    at.says(2, 12, "elsewhere")
    at.says(9, 13, "on a pull request of others")
    await at.look()
    expected = [
        ("acme/shop", 1, "first"),
        ("acme/shop", 1, "second"),
        ("acme/shop", 2, "elsewhere"),
    ]
    assert at.heard == expected
    at.restart()
    await at.look()
    assert at.heard == expected
    assert (await at.pull(1))["comment_seen"] == 11


async def test_a_comment_that_always_fails_is_passed_over_after_three_tries(
    at: PlatformHouse,
) -> None:
    await at.opened(1)
    await at.opened(2)
    at.says(1, 10, "poison")
    at.says(1, 11, "good")
    at.says(2, 12, "elsewhere")
    at.deaf["poison"] = ForgeError("Gitea is busy", "away")
    for _ in range(4):
        # A platform that is away is nobody's fault: that does not count, and nobody else waits.
        row = await at.look()
        assert "A comment on #1 was not handled: Gitea is busy" in row["sync_error"]
        assert (row["sync_failures"], at.heard) == (0, [("acme/shop", 2, "elsewhere")])
    at.deaf["poison"] = ValueError("a secret thing")
    at.heard.clear()
    for _ in range(2):
        row = await at.look()
        assert "A comment on #1 was not handled" in row["sync_error"]
        assert "secret" not in row["sync_error"]
        # It does not keep the others from being heard, once, nor the repository from being well.
        assert at.heard == [("acme/shop", 1, "good")]
        assert (row["sync_failures"], (await at.pull(1))["comment_seen"]) == (0, 0)
        assert 25 < await at.wait_seconds() <= 30
    row = await at.glance()
    assert (row["sync_error"], at.heard) == (None, [("acme/shop", 1, "good")])
    assert (await at.pull(1))["comment_seen"] == 11


async def test_a_comment_that_no_answer_can_be_had_for_is_passed_over_in_the_end(
    at: PlatformHouse,
) -> None:
    await at.look()
    await at.opened(1)
    at.says(1, 10, "poison")
    at.says(1, 11, "good")
    at.deaf["poison"] = ForgeError("500", "away")
    await at.told("one", HookEvent("comment", SHOP, 1))
    # Only that it is so often, not that it is asked so often, is of interest here.
    at.hall.seen[SHOP] = msgspec.structs.replace(at.hall.seen[SHOP], default_branch="")
    looks = 0
    while not at.heard:
        await at.glance()
        looks += 1
        assert looks <= 61
    assert looks >= 59


async def test_what_a_listener_wants_to_hear_later_is_told_again_soon(at: PlatformHouse) -> None:
    await at.look()
    await at.opened(1)
    await at.opened(2)
    at.says(1, 10, "early")
    at.says(1, 11, "after it")
    at.says(2, 12, "elsewhere")
    at.deaf["early"] = CommentDeferred()
    row = await at.look()
    assert (row["sync_error"], row["sync_failures"]) == (None, 0)
    assert at.heard == [("acme/shop", 2, "elsewhere")]
    assert 25 < await at.wait_seconds() <= 30
    at.hall.asked.clear()
    for _ in range(5):
        await at.glance()
    assert at.hall.asked == {"pull": 5, "comments": 5}
    assert (await at.pull(1))["comment_seen"] == 0
    at.deaf.clear()
    await at.glance()
    assert [text for _, _, text in at.heard] == ["elsewhere", "early", "after it"]
    assert 200 < await at.wait_seconds() <= 300


async def test_what_a_job_wrote_meanwhile_is_newer_than_what_the_platform_said(
    at: PlatformHouse,
) -> None:
    await at.opened(1, draft=True)
    at.became(1, draft=False)
    answer = at.hall.pull

    async def slow(*asked: object) -> object:
        found = await answer(*asked)  # type: ignore[arg-type]
        await at.execute("UPDATE pulls SET head_commit = 'd', draft = :draft", draft=True)
        return found

    at.hall.pull = slow  # type: ignore[assignment, method-assign]
    await at.look()
    assert at.ready == []
    assert (await at.pull(1))["head_commit"] == "d"


async def test_a_claim_comes_back_when_its_process_died(at: PlatformHouse) -> None:
    due = await claim_sync_due(at.db)
    assert due is not None
    assert await claim_sync_due(at.db) is None
    assert round(await at.wait_seconds()) == DUE.lease_ms // SECOND_MS
    await at.execute("UPDATE repos SET sync_due_at = :past", past=now_ms() - 1)
    assert await claim_sync_due(at.db, busy=[due.repo.id]) is None
    for crowded in (at.connection.id, at.connection.organization_id):
        assert await claim_sync_due(at.db, crowded=[crowded]) is None
    assert await claim_sync_due(at.db) is not None


async def test_a_look_that_was_cut_off_is_done_again(at: PlatformHouse) -> None:
    await at.opened(1)
    at.says(1, 10, "first")
    at.says(1, 11, "second")
    at.deaf["second"] = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await at.look()
    row = await at.row()
    # What was done stays done; the rest comes when the claim is over.
    assert row["head_commit"]
    assert (await at.pull(1))["comment_seen"] == 10
    assert round(await at.wait_seconds()) == DUE.lease_ms // SECOND_MS
    at.deaf.clear()
    at.restart()
    await at.look()
    assert [text for _, _, text in at.heard] == ["first", "second"]


async def test_a_hint_during_a_look_leads_to_another_and_hooks_make_polls_rare(
    at: PlatformHouse,
) -> None:
    at.hall.pulls.clear()
    await at.opened(1)
    at.says(1, 10, "first")
    answer = at.hall.comments

    async def told_meanwhile(*asked: object) -> object:
        found = await answer(*asked)  # type: ignore[arg-type]
        if len(at.hall.said) == 1:
            at.says(1, 11, "second")
            await at.told("one", HookEvent("comment", SHOP, 1))
        return found

    at.hall.comments = told_meanwhile  # type: ignore[assignment, method-assign]
    await at.look()
    assert [text for _, _, text in at.heard] == ["first"]
    assert await at.loop.sync_one()
    assert [text for _, _, text in at.heard] == ["first", "second"]
    await at.look()
    assert 3500 < await at.wait_seconds() <= 3600


async def test_the_loop_follows_hints_while_it_runs(at: PlatformHouse) -> None:
    await at.look()
    await at.opened(1)
    running = asyncio.create_task(at.loop.run())
    try:
        at.says(1, 10, "please")
        await record_hook_delivery(at.db, at.connection.id, "one", HookEvent("comment", SHOP, 1))
        await until(lambda: len(at.heard) == 1)
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert at.heard == [("acme/shop", 1, "please")]
