"""Merging and closing pull requests on their platform, on both stores."""

from pathlib import Path

import pytest

from agentjobs.organizations.audit import Actor, AuditFilter, AuditRecord, acting_as, list_entries
from agentjobs.platform_sync import pull_changes
from agentjobs.platform_sync.pull_changes import close_platform_pull, merge_platform_pull
from agentjobs.platforms.protocol import PlatformError, PlatformFault
from agentjobs.pulls.pulls import Pull, get_pull
from agentjobs.store.database import Database
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings
from tests.support.platform_sync import HEAD, SyncEnvironment, sync_environment

NEWER = "c" * 40
KEY = Actor("key", "merger", "key_1", "192.0.2.7")


@pytest.fixture
async def env(database: Database, tmp_path: Path) -> SyncEnvironment:
    env = await sync_environment(database, Settings(data_dir=str(tmp_path)), Remote(""))
    await env.connect()
    await env.open_pull(1)
    return env


async def stored(env: SyncEnvironment) -> Pull:
    return await get_pull(env.db, "default", "acme/shop", 1)


async def merge(env: SyncEnvironment, head_commit: str | None = None) -> Pull:
    with acting_as(KEY):
        return await merge_platform_pull(
            env.db, env, await stored(env), method="merge", head_commit=head_commit
        )


async def close(env: SyncEnvironment) -> Pull:
    with acting_as(KEY):
        return await close_platform_pull(env.db, env, await stored(env))


async def entries(env: SyncEnvironment) -> list[AuditRecord]:
    filters = AuditFilter(action="pull")
    return await list_entries(env.db, env.connection.organization_id, filters, limit=5)


async def test_a_merge_is_stored_and_audited_and_its_branch_is_finished(
    env: SyncEnvironment,
) -> None:
    pull = await merge(env, HEAD)
    assert (pull.state, pull.head_commit, pull.ended_by) == ("merged", HEAD, "merger")
    assert pull.merged_at is not None
    assert pull.closed_at is None
    merged, requested = await entries(env)
    assert (merged.action, requested.action) == ("pull.merged", "pull.merge_requested")
    for entry in (merged, requested):
        assert (entry.target, entry.actor_id) == ("acme/shop#1", "key_1")
    assert await env.db.fetch_all("SELECT branch FROM finished_branches")
    assert await env.seconds_until_due() <= 0


async def test_a_closed_pull_request_is_stored_and_audited(env: SyncEnvironment) -> None:
    pull = await close(env)
    assert (pull.state, pull.merged_at, pull.ended_by) == ("closed", None, "merger")
    assert pull.closed_at is not None
    actions = [entry.action for entry in await entries(env)]
    assert actions == ["pull.closed", "pull.close_requested"]


async def test_only_the_expected_head_is_merged(env: SyncEnvironment) -> None:
    env.change_pull(1, head_commit=NEWER)
    with pytest.raises(Problem) as raised:
        await merge(env, HEAD)
    assert (raised.value.code, raised.value.details) == ("pull_changed", {"head_commit": NEWER})
    assert not env.platform.requests["merge_pull"]
    assert (await merge(env)).head_commit == NEWER


async def test_a_head_that_moves_during_the_merge_is_not_merged(
    env: SyncEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform compares the head that was read with the one that it has."""
    merge_pull = env.platform.merge_pull

    async def move_first(*arguments: object, **options: object) -> None:
        env.change_pull(1, head_commit=NEWER)
        await merge_pull(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(env.platform, "merge_pull", move_first)
    with pytest.raises(Problem) as raised:
        await merge(env)
    assert raised.value.code == "pull_changed"
    assert (await stored(env)).state == "open"


async def test_a_merge_whose_response_was_lost_counts(env: SyncEnvironment) -> None:
    env.platform.faults["lost_merge"] = PlatformError("The connection was lost.", "away")
    assert (await merge(env)).state == "merged"
    assert len(await entries(env)) == 2


@pytest.mark.parametrize("fault", ["refused", "denied", "unauthorized", "gone"])
async def test_a_refusal_of_the_platform_is_passed_on(
    env: SyncEnvironment, fault: PlatformFault
) -> None:
    for method, change in (("merge_pull", merge), ("close_pull", close)):
        env.platform.faults[method] = PlatformError("Two approvals are required.", fault)
        with pytest.raises(Problem, match="Two approvals are required") as raised:
            await change(env)
        assert raised.value.code == "pull_not_mergeable"
    assert (await stored(env)).state == "open"
    actions = [entry.action for entry in await entries(env)]
    assert actions == ["pull.close_requested", "pull.merge_requested"]


@pytest.mark.parametrize("method", ["merge_pull", "pull"])
@pytest.mark.parametrize("fault", ["away", "unusable"])
async def test_a_platform_that_is_away_can_be_asked_again(
    env: SyncEnvironment, method: str, fault: PlatformFault
) -> None:
    env.platform.faults[method] = PlatformError("It does not respond.", fault)
    with pytest.raises(Problem, match="does not respond") as raised:
        await merge(env)
    assert raised.value.code == "forge_unavailable"
    assert raised.value.retry_after_seconds


async def test_a_platform_that_never_answers_is_given_up(
    env: SyncEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_changes, "TIMEOUT_SECONDS", 0)
    for change in (merge, close):
        with pytest.raises(Problem) as raised:
            await change(env)
        assert raised.value.code == "forge_unavailable"


async def test_what_ended_on_the_platform_is_not_open(env: SyncEnvironment) -> None:
    env.change_pull(1, state="closed")
    for change in (merge, close):
        with pytest.raises(Problem, match="already closed") as raised:
            await change(env)
        assert raised.value.code == "pull_not_open"
    assert await env.seconds_until_due() <= 0


async def test_a_method_that_the_platform_lacks_is_refused_with_the_others(
    env: SyncEnvironment,
) -> None:
    with pytest.raises(Problem) as raised:
        await merge_platform_pull(env.db, env, await stored(env), method="rebase", head_commit=None)
    message = "must be `merge` or `squash` for a repository on gitea"
    assert raised.value.code == "validation_failed"
    assert raised.value.details == [{"field": "method", "message": message}]


async def test_a_sync_that_sees_the_merge_first_keeps_who_merged_it(env: SyncEnvironment) -> None:
    pull = await stored(env)
    env.change_pull(1, state="merged")
    await env.execute("UPDATE pulls SET state = 'merged', merged_at = 5")
    entry = pull_changes.audit.Entry(KEY, "pull.merged", pull.short_name, {})
    for _ in range(2):
        after = await pull_changes._record(env.db, pull, env.platform.pulls[1], entry)
        assert (after.state, after.ended_by) == ("merged", "merger")
    assert len(await entries(env)) == 1
