"""Syncs with a platform, on both stores; git is real, the platform is in memory."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.inventory.indexing import claim_due
from agentjobs.jobs.queue.platform_outages import held_keys, record_outage
from agentjobs.platform_sync import pulls, sync
from agentjobs.platform_sync.claims import claim_due_sync
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.platforms.hooks import HookEvent
from agentjobs.platforms.http.client import ApiError
from agentjobs.platforms.protocol import PlatformError
from agentjobs.repos.queues import SYNC
from agentjobs.store.database import Database
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.protocol.outcomes import Outage
from agentjobs_runtime.settings import load
from tests.support.clock_shift import ShiftClock
from tests.support.platform_sync import SHOP, SyncEnvironment, sync_environment
from tests.support.stores import until
from tests.support.workspace import WorkspaceHarness, run_git, workspace_harness


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as workspace:
        yield workspace


@pytest.fixture
async def env(database: Database, tmp_path: Path, workspace: WorkspaceHarness) -> SyncEnvironment:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    env = await sync_environment(database, settings, workspace.remote)
    await env.connect()
    return env


def head_of(copy: str, branch: str) -> str:
    return run_git(Path(copy), "rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False)


async def test_the_first_sync_fetches_a_copy_and_later_ones_what_is_new(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    row = await env.full_sync()
    first = workspace.origin.head("main")
    copy = env.copy_path(row)
    assert (row["head_commit"], row["sync_error"], row["sync_failures"]) == (first, None, 0)
    assert head_of(copy, "main") == first
    assert row["index_due_at"] < now_ms() + SECOND_MS
    indexed = await claim_due(env.db)
    assert indexed is not None
    assert (indexed.id, indexed.head_commit) == (row["id"], first)
    assert 200 < await env.seconds_until_due() <= 300
    await env.update_repos("index_due_at = NULL")
    assert (await env.full_sync())["index_due_at"] is None

    second = workspace.origin.commit({"new.py": b"import os\n"})
    row = await env.full_sync()
    assert (row["head_commit"], head_of(copy, "main")) == (second, second)
    assert row["index_due_at"] is not None

    # Rewritten history replaces the old history.
    run_git(workspace.origin.clone, "reset", "-q", "--hard", str(first))
    rewritten = workspace.origin.commit({"other.py": b"import sys\n"})
    row = await env.full_sync()
    assert (row["head_commit"], head_of(copy, "main")) == (rewritten, rewritten)

    # A branch whose name conflicts with the old branch.
    workspace.origin.commit_as_is(branch="trunk")
    run_git(workspace.origin.bare, "update-ref", "-d", "refs/heads/main")
    nested = workspace.origin.commit_as_is(branch="main/next")
    env.change_repo(default_branch="main/next")
    row = await env.full_sync()
    assert (row["default_branch"], row["head_commit"]) == ("main/next", nested)
    assert head_of(copy, "main/next") == nested
    assert head_of(copy, "main") == ""

    # A damaged copy is fetched again.
    shutil.rmtree(copy)
    (Path(copy) / "objects").mkdir(parents=True)
    await env.full_sync()
    assert head_of(copy, "main/next") == nested


async def test_a_renamed_repository_is_renamed_here_unless_the_name_is_taken(
    env: SyncEnvironment,
) -> None:
    env.change_repo(full_name="acme/store")
    row = await env.full_sync()
    assert (row["full_name"], row["sync_error"]) == ("acme/store", None)
    entry = await env.db.fetch_one("SELECT * FROM audit_log WHERE action = 'repo.renamed'")
    assert entry is not None
    assert entry["target"] == "acme/store"

    env.change_repo("42", full_name="acme/other")
    await env.connect("acme/other")
    env.change_repo(full_name="acme/other")
    row = await env.full_sync()
    assert (row["full_name"], row["sync_failures"]) == ("acme/store", 0)
    assert "acme/other" in row["sync_error"]
    # Requests use the name that the platform has.
    assert env.platform.last_full_name == "acme/other"
    assert row["head_commit"]

    env.change_repo(full_name="../../etc")
    row = await env.full_sync()
    assert row["full_name"] == "acme/store"
    assert "not a valid" in row["sync_error"]


async def test_a_missing_repository_shows_an_error_and_is_synced_less_and_less_often(
    env: SyncEnvironment,
) -> None:
    await env.full_sync()
    await env.update_repos("index_status = 'ready', index_due_at = NULL")
    remote = env.platform.repos.pop(SHOP)
    waits = []
    for _ in range(9):
        row = await env.full_sync()
        waits.append(await env.seconds_until_due())
    assert waits == pytest.approx([30, 60, 120, 240, 480, 960, 1920, 3600, 3600], rel=0.3)
    assert "acme/shop no longer exists on its platform" in row["sync_error"]
    # A repository that is indexed stays ready.
    assert (row["index_status"], row["index_error"], row["index_due_at"]) == ("ready", None, None)
    assert env.platform.requests["pull"] == 0

    # One that never was shows the error on its index too, and is indexed when it is back.
    await env.update_repos("index_status = 'indexing', head_commit = ''")
    row = await env.full_sync()
    assert (row["index_status"], row["index_error"]) == ("indexing", row["sync_error"])
    env.platform.repos[SHOP] = remote
    row = await env.full_sync()
    assert (row["sync_error"], row["sync_failures"], row["index_error"]) == (None, 0, None)
    assert row["index_due_at"] is not None


async def test_the_error_says_why_a_repository_cannot_be_used(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    env.change_repo(is_archived=True)
    assert "archived" in (await env.full_sync())["sync_error"]
    env.change_repo(is_archived=False, may_push=False)
    assert "push" in (await env.full_sync())["sync_error"]
    env.change_repo(may_push=True, default_branch="")
    row = await env.full_sync()
    assert "empty" in row["sync_error"]
    # Not a failure, so there is no backoff: the first push makes it due.
    assert row["sync_failures"] == 0
    env.change_repo(default_branch="gone")
    assert "no branch 'gone'" in (await env.full_sync())["sync_error"]
    env.change_repo(default_branch="--upload-pack=x")
    assert "has an invalid name" in (await env.full_sync())["sync_error"]
    env.change_repo(default_branch="main")
    workspace.server.required_authorization = "Basic secret"
    row = await env.full_sync()
    assert "acme/shop denies access" in row["sync_error"]
    assert str(workspace.server.server_port) not in row["sync_error"]


async def test_repositories_of_a_revoked_credential_back_off_together(env: SyncEnvironment) -> None:
    env.change_repo("42", full_name="acme/other")
    await env.connect("acme/other")
    refused = PlatformError("Gitea refuses the token", "unauthorized")
    env.platform.faults = {"repository": refused, "check": refused}
    await env.full_sync()
    assert env.platform.requests["repository"] == 2  # connecting one repository requested it once
    for external_id in (SHOP, "42"):
        row = await env.row(external_id)
        assert (row["sync_error"], row["sync_failures"]) == ("Gitea refuses the token", 1)
        assert row["sync_due_at"] > now_ms() + 20_000
    assert not await env.loop.sync_next()
    assert await connection_error(env) == "Gitea refuses the token"
    env.platform.faults.clear()
    await env.full_sync()
    assert await connection_error(env) is None


async def test_one_refusal_of_a_credential_does_not_mark_the_connection(
    env: SyncEnvironment,
) -> None:
    env.change_repo("42", full_name="acme/other")
    await env.connect("acme/other")
    env.platform.faults["repository"] = PlatformError("Bad credentials", "unauthorized")
    row = await env.full_sync()
    assert (row["sync_error"], row["sync_failures"]) == ("Bad credentials", 1)
    assert env.platform.requests["check"] == 1
    assert await connection_error(env) is None
    assert (await env.row("42"))["sync_error"] is None


async def test_a_connection_that_lacks_permissions_is_marked_and_a_single_repository_is_not(
    env: SyncEnvironment,
) -> None:
    env.platform.faults["repository"] = PlatformError("the permission is missing", "denied")
    assert (await env.full_sync())["sync_error"] == "the permission is missing"
    assert await connection_error(env) is None
    env.platform.missing = ("Contents: read and write",)
    await env.full_sync()
    assert await connection_error(env) == "the permission is missing"
    env.platform.faults.clear()
    assert (await env.full_sync())["sync_error"] is None
    assert await connection_error(env) is None


async def test_a_sync_that_works_again_lets_the_jobs_of_the_connection_try(
    env: SyncEnvironment,
) -> None:
    key = f"refused:{(await env.row())['id']}"
    env.platform.faults["repository"] = PlatformError("the permission is missing", "denied")
    await env.full_sync()
    await env.db.transact(record_outage, Outage(key, "the permission is missing"))
    env.platform.faults.clear()
    await env.full_sync()
    assert await held_keys(env.db) == set()


async def connection_error(env: SyncEnvironment) -> str | None:
    row = await env.db.fetch_one("SELECT error FROM platform_connections")
    assert row is not None
    error: str | None = row["error"]
    return error


async def test_an_unreachable_platform_pauses_all_repositories_of_its_connection(
    env: SyncEnvironment,
) -> None:
    env.change_repo("42", full_name="acme/other")
    await env.connect("acme/other")
    env.platform.faults["repository"] = PlatformError("Gitea is busy", "away")
    await env.full_sync()
    assert not await env.loop.sync_next()
    other = await env.row("42")
    assert (other["sync_error"], other["sync_failures"]) == (None, 0)
    assert await connection_error(env) is None
    # The pause grows with each failure, whichever repository it is.
    waits = []
    for external_id in ("42", SHOP, "42"):
        await env.update_repos("sync_due_at = 1", "r.external_id = :id", id=external_id)
        await env.execute("UPDATE platform_connections SET resting_until = 1")
        assert await env.loop.sync_next()
        waits.append(await pause_seconds(env))
    assert waits == pytest.approx([60, 120, 240], rel=0.3)
    env.platform.faults.clear()
    await env.full_sync()
    assert await pause_seconds(env) == 0


async def pause_seconds(env: SyncEnvironment) -> int:
    row = await env.db.fetch_one("SELECT resting_until FROM platform_connections")
    assert row is not None
    return max(0, round(((row["resting_until"] or 0) - now_ms()) / SECOND_MS))


async def test_a_rate_limit_pauses_the_connection_until_its_reset(env: SyncEnvironment) -> None:
    async def pause_seconds() -> float:
        row = await env.db.fetch_one(
            "SELECT resting_until, away_failures FROM platform_connections"
        )
        assert row is not None
        return (row["resting_until"] - now_ms()) / 1_000

    for wait_seconds, expected in ((1_800.0, 1_800), (1e9, 3_600)):
        busy = ApiError("GitHub is busy", "away", retry_after_seconds=wait_seconds)
        env.platform.faults["repository"] = busy
        await env.full_sync()
        # The clocks of the machine and the database may differ a little.
        assert expected - 60 < await pause_seconds() < expected + 60
    # In a later request of a sync too; a pause is never shortened.
    del env.platform.faults["repository"]
    await env.open_pull(1)
    env.platform.faults["comments"] = ApiError("busy", "away", retry_after_seconds=900)
    env.platform.faults["open_remote"] = ApiError("busy", "away", retry_after_seconds=600)
    await env.full_sync()
    assert 540 < await pause_seconds() <= 900


async def test_rows_of_pull_requests_follow_the_platform(env: SyncEnvironment) -> None:
    for number in range(1, 6):
        await env.open_pull(number, draft=number in {1, 5})
    env.change_pull(1, draft=False, title="A better\ntitle\x00", head_commit="c" * 40)
    env.change_pull(2, state="merged")
    env.change_pull(3, state="closed")
    del env.platform.pulls[4]
    env.change_pull(5, draft=False, state="closed")
    row = await env.full_sync()
    assert row["sync_error"] is None
    # A pull request that is not found once or twice is not closed: the platform may be wrong.
    assert [(await env.pull(4))["state"], (await env.full_sync())["sync_error"]] == ["open", None]
    assert [(await env.pull(4))["state"], (await env.full_sync())["sync_error"]] == ["open", None]
    first = await env.pull(1)
    assert (first["title"], bool(first["draft"])) == ("A better title\ufffd", False)
    assert first["head_commit"] == "c" * 40
    states = [(await env.pull(number))["state"] for number in range(1, 6)]
    assert states == ["open", "merged", "closed", "closed", "closed"]
    assert (await env.pull(2))["merged_at"] is not None
    # A draft that became ready requests its review, the others did when they were opened.
    assert await env.review_requests() == [2, 3, 4, 1]
    env.platform.requests.clear()
    await env.full_sync()
    assert env.platform.requests["pull"] == 1

    # A job requests a review only once, even if its pull request becomes a draft in between.
    env.change_pull(1, draft=True)
    await env.full_sync()
    env.change_pull(1, draft=False)
    await env.full_sync()
    assert await env.review_requests() == [2, 3, 4, 1]

    # A closed pull request is read when an event names it, otherwise once an hour.
    env.change_pull(3, state="open")
    env.change_pull(5, state="open")
    await env.full_sync()
    assert (await env.pull(3))["state"] == "closed"
    await env.receive("one", HookEvent("pull", SHOP, 3))
    await env.full_sync()
    third = await env.pull(3)
    assert (third["state"], third["closed_at"]) == ("open", None)
    assert (await env.pull(5))["state"] == "closed"
    await env.execute("UPDATE pulls SET synced_at = synced_at - 3600000 WHERE number = 5")
    await env.full_sync()
    assert (await env.pull(5))["state"] == "open"


async def test_after_an_event_only_what_it_names_is_read(env: SyncEnvironment) -> None:
    await env.full_sync()
    await env.open_pull(3)
    for number in {*range(1, 71)} - {3}:
        await env.record_pull(number, f"fix-{number}")
    requests = env.platform.requests
    requests.clear()
    await env.full_sync()
    # The 50 newest and 10 of the others; the rest follows in the next sync.
    assert (requests["pull"], requests["comments"], requests["repository"]) == (60, 60, 1)
    await env.full_sync()
    rows = await env.db.fetch_all("SELECT number FROM pulls WHERE synced_at IS NULL")
    assert rows == []

    requests.clear()
    env.post(3, 10, "please")
    await env.receive("one", HookEvent("comment", SHOP, 3))
    await env.sync()
    assert (requests, env.replies) == ({"pull": 1, "comments": 1}, [("acme/shop", 3, "please")])
    requests.clear()
    await env.receive("two", HookEvent("push", SHOP))
    await env.sync()
    assert requests == {"repository": 1, "open_remote": 1}
    # An event that arrives while the platform is unavailable is not lost.
    env.platform.faults["pull"] = PlatformError("Gitea is busy", "away")
    await env.receive("three", HookEvent("pull", SHOP, 4))
    row = await env.sync()
    assert (row["sync_error"], row["sync_failures"]) == ("Gitea is busy", 1)
    env.platform.faults.clear()
    requests.clear()
    row = await env.sync()
    assert (requests["pull"], row["sync_error"]) == (1, None)
    assert 200 < await env.seconds_until_due() <= 300


async def test_a_sync_ends_however_slow_the_platform_is(
    env: SyncEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sync, pulls):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.5)
    await env.open_pull(1)
    await env.open_pull(2)
    original = env.platform.comments

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    env.platform.comments = never  # type: ignore[assignment, method-assign]
    env.change_pull(1, title="Other")
    row = await env.full_sync()
    assert "slow" in row["sync_error"]
    # What was read is stored; the others come first in the next sync.
    assert ((await env.pull(1))["title"], row["sync_failures"]) == ("Other", 0)
    env.platform.comments = original  # type: ignore[method-assign]
    env.change_pull(2, title="Other")
    await env.full_sync()
    assert (await env.pull(2))["title"] == "Other"

    env.platform.repository = never  # type: ignore[assignment, method-assign]
    row = await env.full_sync()
    assert "did not answer within" in row["sync_error"]
    assert 0 < await pause_seconds(env) <= 30


async def test_a_failing_pull_request_does_not_block_the_others(
    env: SyncEnvironment,
) -> None:
    await env.open_pull(1)
    await env.open_pull(2)
    env.platform.faults["comments"] = PlatformError("Issues: read is missing", "denied")
    env.change_pull(2, state="merged")
    row = await env.full_sync()
    assert row["sync_error"] == "Issues: read is missing"
    assert (await env.pull(2))["state"] == "merged"
    assert row["head_commit"]


async def test_each_comment_is_handled_once_and_in_order(env: SyncEnvironment) -> None:
    await env.open_pull(1)
    await env.open_pull(2)
    env.post(1, 11, "second")
    env.post(1, 10, "first")
    env.post(2, 12, "other")
    env.post(9, 13, "not ours")
    await env.full_sync()
    expected = [
        ("acme/shop", 1, "first"),
        ("acme/shop", 1, "second"),
        ("acme/shop", 2, "other"),
    ]
    assert env.replies == expected
    env.restart()
    await env.full_sync()
    assert env.replies == expected
    assert (await env.pull(1))["comment_seen"] == 11


async def test_a_comment_that_always_fails_is_skipped_after_three_attempts(
    env: SyncEnvironment,
) -> None:
    await env.open_pull(1)
    await env.open_pull(2)
    env.post(1, 10, "poison")
    env.post(1, 11, "good")
    env.post(2, 12, "other")
    env.platform.permission_faults["poison"] = PlatformError("Gitea is busy", "away")
    for _ in range(4):
        # An unavailable platform hardly counts, and other pull requests are not affected.
        row = await env.full_sync()
        assert "A comment on #1 was not handled: Gitea is busy" in row["sync_error"]
        assert (row["sync_failures"], env.replies) == (0, [("acme/shop", 2, "other")])
    env.platform.permission_faults["poison"] = ValueError("a secret detail")
    env.replies.clear()
    for _ in range(2):
        row = await env.full_sync()
        assert "A comment on #1 was not handled" in row["sync_error"]
        assert "secret" not in row["sync_error"]
        # Later comments wait, and the sync does not fail.
        assert env.replies == []
        assert (row["sync_failures"], (await env.pull(1))["comment_seen"]) == (0, 0)
        assert 0 < await env.seconds_until_due() <= 30
    row = await env.sync()
    assert (row["sync_error"], env.replies) == (None, [("acme/shop", 1, "good")])
    assert (await env.pull(1))["comment_seen"] == 11


async def test_a_comment_is_skipped_eventually_if_the_platform_never_answers(
    env: SyncEnvironment,
) -> None:
    await env.full_sync()
    await env.open_pull(1)
    env.post(1, 10, "poison")
    env.post(1, 11, "good")
    env.platform.permission_faults["poison"] = PlatformError("500", "away")
    await env.receive("one", HookEvent("comment", SHOP, 1))
    # Without a default branch nothing is fetched.
    env.change_repo(default_branch="")
    syncs = 0
    while not env.replies:
        await env.sync()
        syncs += 1
        assert syncs <= 61
    assert syncs >= 59


async def test_comments_on_a_pull_request_whose_job_runs_are_deferred(env: SyncEnvironment) -> None:
    await env.full_sync()
    await env.open_pull(2)
    job = await env.start_pull(1)
    env.post(1, 10, "early")
    env.post(1, 11, "later")
    env.post(2, 12, "other")
    row = await env.full_sync()
    assert (row["sync_error"], row["sync_failures"]) == (None, 0)
    assert env.replies == [("acme/shop", 2, "other")]
    assert 0 < await env.seconds_until_due() <= 30
    env.platform.requests.clear()
    for _ in range(5):
        await env.sync()
    assert env.platform.requests == {"pull": 5, "comments": 5}
    assert (await env.pull(1))["comment_seen"] == 0
    await env.finish(job, 1)
    await env.sync()
    assert env.answered_authors == ["other", "early", "later"]
    assert 200 < await env.seconds_until_due() <= 300


async def test_what_a_job_writes_during_a_sync_is_not_overwritten(
    env: SyncEnvironment,
) -> None:
    await env.open_pull(1, draft=True)
    env.change_pull(1, draft=False)
    original = env.platform.pull

    async def slow(*arguments: object) -> object:
        response = await original(*arguments)  # type: ignore[arg-type]
        await env.execute("UPDATE pulls SET head_commit = 'd', draft = :draft", draft=True)
        return response

    env.platform.pull = slow  # type: ignore[assignment, method-assign]
    await env.full_sync()
    assert await env.review_requests() == []
    assert (await env.pull(1))["head_commit"] == "d"


async def test_a_claim_expires_when_its_process_dies(env: SyncEnvironment) -> None:
    due = await claim_due_sync(env.db)
    assert due is not None
    assert await claim_due_sync(env.db) is None
    lease_seconds = SYNC.lease_ms // SECOND_MS
    assert lease_seconds / 2 < await env.seconds_until_due() <= lease_seconds
    past = now_ms() - 1
    await env.update_repos("sync_due_at = :past", past=past)
    # Made due meanwhile, it is still claimed.
    assert await claim_due_sync(env.db) is None
    await env.update_repos("sync_lease_until = :past", past=past)
    assert await claim_due_sync(env.db, busy=[due.repo.id]) is None
    for crowded in (env.connection.id, env.connection.organization_id):
        assert await claim_due_sync(env.db, crowded=[crowded]) is None
    assert await claim_due_sync(env.db) is not None


async def test_an_interrupted_sync_is_repeated(env: SyncEnvironment) -> None:
    await env.open_pull(1)
    env.post(1, 10, "first")
    env.post(1, 11, "second")
    env.platform.permission_faults["second"] = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await env.full_sync()
    row = await env.row()
    # What was handled is not repeated; the rest follows when the lease ends.
    assert row["head_commit"]
    assert (await env.pull(1))["comment_seen"] == 10
    lease_seconds = SYNC.lease_ms // SECOND_MS
    assert lease_seconds / 2 < await env.seconds_until_due() <= lease_seconds
    env.platform.permission_faults.clear()
    env.restart()
    await env.full_sync()
    assert env.answered_authors == ["first", "second"]


async def test_an_event_during_a_sync_leads_to_another_one_and_hooks_make_polls_rare(
    env: SyncEnvironment,
) -> None:
    env.platform.pulls.clear()
    await env.open_pull(1)
    env.post(1, 10, "first")
    original = env.platform.comments

    async def receive_meanwhile(*arguments: object) -> object:
        response = await original(*arguments)  # type: ignore[arg-type]
        if len(env.platform.posted) == 1:
            env.post(1, 11, "second")
            await env.receive("one", HookEvent("comment", SHOP, 1))
        return response

    env.platform.comments = receive_meanwhile  # type: ignore[assignment, method-assign]
    await env.full_sync()
    assert env.answered_authors == ["first"]
    assert await env.loop.sync_next()
    assert env.answered_authors == ["first", "second"]
    await env.full_sync()
    assert 3000 < await env.seconds_until_due() <= 3600


async def test_the_loop_handles_events_while_it_runs(env: SyncEnvironment) -> None:
    await env.full_sync()
    await env.open_pull(1)
    running = asyncio.create_task(env.loop.run())
    try:
        env.post(1, 10, "please")
        await record_hook_delivery(env.db, env.connection.id, "one", HookEvent("comment", SHOP, 1))
        await until(lambda: len(env.replies) == 1)
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert env.replies == [("acme/shop", 1, "please")]


async def test_syncs_are_due_by_the_clock_of_the_database(
    env: SyncEnvironment, shift_clock: ShiftClock
) -> None:
    shift_clock(86_400)
    row = await env.full_sync()
    shift_clock(0)

    is_only_clock = env.db.engine == "sqlite"
    next_sync_ms = row["sync_due_at"] - now_ms()
    assert (next_sync_ms > 86_400 * SECOND_MS) == is_only_clock
    assert (row["index_due_at"] > now_ms() + SECOND_MS) == is_only_clock
