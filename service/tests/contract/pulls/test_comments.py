"""Comments on pull requests and paginated lists of pull requests, on both stores."""

import asyncio
from pathlib import Path

import pytest

from agentjobs.organizations.audit import SERVICE, Actor, AuditFilter, acting_as, list_entries
from agentjobs.pulls import comments
from agentjobs.pulls.comments import (
    CodePlace,
    add_comment,
    list_comments,
    record_job,
    resolve_comment,
)
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import PullCursor, close_pull, get_pull, list_pulls
from agentjobs.store.database import Database, StoreError, Transaction
from agentjobs_runtime.problems import Problem
from tests.support.local_repository import Platform, make_platform

ADA = Actor("user", "ada@example.com", "usr_1", "203.0.113.9")
HERE = ("acme", "acme/shop")


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    platform = await make_platform(database, tmp_path)
    await platform.open_pull("agentjobs/one", {"a": "1"})
    return platform


async def bodies(db: Database, number: int = 1) -> list[str]:
    pull = await get_pull(db, *HERE, number)
    return [comment.body for comment in await list_comments(db, pull)]


async def test_a_comment_has_the_current_actor_as_author_and_an_audit_entry(
    platform: Platform,
) -> None:
    with acting_as(ADA):
        first = await add_comment(platform.db, *HERE, 1, "Why 2?\r\n<b>And</b> \u202e\u0001?")
    second = await add_comment(platform.db, *HERE, 1, "Because.")
    assert (first.author, first.author_id) == (ADA.name, ADA.id)
    assert first.body == "Why 2?\n<b>And</b> \u202e\u0001?"
    assert (second.author, second.author_id) == (SERVICE.name, None)
    pull = await get_pull(platform.db, *HERE, 1)
    assert await list_comments(platform.db, pull) == [first, second]
    filters = AuditFilter(action="pull.commented")
    entries = await list_entries(platform.db, platform.organization.id, filters, limit=10)
    assert [(entry.actor, entry.target, entry.details) for entry in entries] == [
        (SERVICE.name, "acme/shop#1", {"comment": second.id}),
        (ADA.name, "acme/shop#1", {"comment": first.id}),
    ]


async def test_comments_belong_to_one_pull_request_of_any_state(platform: Platform) -> None:
    await platform.open_pull("agentjobs/two", {"b": "2"})
    await merge_pull(platform.db, platform.settings, *HERE, 1)
    await close_pull(platform.db, *HERE, 2)
    await add_comment(platform.db, *HERE, 1, "merged")
    await add_comment(platform.db, *HERE, 2, "closed")
    assert await bodies(platform.db, 1) == ["merged"]
    assert await bodies(platform.db, 2) == ["closed"]


INVALID_COMMENTS = ["", " \r\n\t", "x" * 65_537, "a\0b", "half \ud83d", "\udc00"]


async def test_an_invalid_comment_is_refused(platform: Platform, subtests: pytest.Subtests) -> None:
    for body in INVALID_COMMENTS:
        with subtests.test(repr(body[:8])):
            with pytest.raises(Problem) as raised:
                await add_comment(platform.db, *HERE, 1, body)
            assert raised.value.code == "invalid_comment"
            assert await bodies(platform.db) == []


async def test_a_comment_may_be_long(platform: Platform) -> None:
    await add_comment(platform.db, *HERE, 1, "é" * 65_536)
    await add_comment(platform.db, *HERE, 1, "1")
    assert [len(body) for body in await bodies(platform.db)] == [65_536, 1]


@pytest.mark.parametrize("pull", [("other", "acme/shop", 1), ("acme", "a/b", 1), (*HERE, 9)])
async def test_a_comment_on_an_unknown_pull_request_is_refused(
    platform: Platform, pull: tuple[str, str, int]
) -> None:
    with pytest.raises(Problem) as raised:
        await add_comment(platform.db, *pull, "Hello")
    assert raised.value.code == "pull_not_found"
    assert await bodies(platform.db) == []


async def test_comments_are_limited_even_if_they_come_concurrently(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comments, "MAX_COMMENTS", 3)
    adding = [add_comment(platform.db, *HERE, 1, f"{number}") for number in range(8)]
    results = await asyncio.gather(*adding, return_exceptions=True)
    problems = [result for result in results if isinstance(result, Problem)]
    assert [result.code for result in problems] == ["too_many_comments"] * 5
    assert len(await bodies(platform.db)) == 3
    filters = AuditFilter(action="pull")
    entries = await list_entries(platform.db, platform.organization.id, filters, limit=10)
    assert len(entries) == 3


async def test_a_comment_without_an_audit_entry_is_not_stored(platform: Platform) -> None:
    await platform.db.transact(_execute, "ALTER TABLE audit_log RENAME TO lost")
    with pytest.raises(StoreError):
        await add_comment(platform.db, *HERE, 1, "Hello")
    assert await bodies(platform.db) == []


async def test_comments_on_lines_have_replies_and_jobs_and_are_resolved(
    platform: Platform,
) -> None:
    await platform.open_pull("agentjobs/two", {"b": "2"})
    db, pull = platform.db, await get_pull(platform.db, *HERE, 1)
    place = CodePlace("a", "right", 1, "c" * 40, "+1")
    first = await add_comment(db, *HERE, 1, "Why?", place=place)
    reply = await add_comment(db, *HERE, 1, "Because.", reply_to=first.id)
    general = await add_comment(db, *HERE, 1, "Hello")
    assert await list_comments(db, pull) == [first, reply, general]
    await record_job(db, pull, [first.id, "cmt_unknown"], "job_1")
    with acting_as(ADA):
        await resolve_comment(db, pull, first.id, resolved=True)
    resolved = (await list_comments(db, pull))[0]
    assert (resolved.place, resolved.job_id, resolved.resolved_by) == (place, "job_1", ADA.name)
    assert resolved.resolved_at is not None
    await resolve_comment(db, pull, first.id, resolved=False)
    reopened = (await list_comments(db, pull))[0]
    assert (reopened.resolved_at, reopened.resolved_by) == (None, None)
    other = await get_pull(db, *HERE, 2)
    await record_job(db, other, [general.id], "job_2")
    assert (await list_comments(db, pull))[2] == general
    for elsewhere, comment in ((pull, general.id), (pull, reply.id), (other, first.id)):
        with pytest.raises(Problem):
            await resolve_comment(db, elsewhere, comment, resolved=True)
    with pytest.raises(Problem):
        await add_comment(db, *HERE, 2, "Hello", reply_to=first.id)


async def test_pull_requests_are_listed_in_pages_without_a_gap_or_a_repeat(
    platform: Platform,
) -> None:
    await platform.db.transact(_fill, platform.organization.id)
    every = await list_pulls(platform.db, "acme")
    assert len(every) == 25
    assert [pull.cursor for pull in every] == sorted(
        (pull.cursor for pull in every), key=lambda cursor: (-cursor[0], cursor[1], -cursor[2])
    )
    for options in ({}, {"state": "merged"}, {"full_name": "acme/r1"}):
        expected = await list_pulls(platform.db, "acme", **options)  # type: ignore[arg-type] # of those
        listed = []
        before: PullCursor | None = None
        while page := await list_pulls(platform.db, "acme", limit=4, before=before, **options):  # type: ignore[arg-type] # likewise
            assert len(page) <= 4
            listed += page
            before = page[-1].cursor
        assert listed == expected
    assert {pull.state for pull in await list_pulls(platform.db, "acme", state="open")} == {"open"}
    assert len(await list_pulls(platform.db, "acme", state="merged")) == 8
    assert await list_pulls(platform.db, "acme", state="none of these") == []


async def _fill(tx: Transaction, organization_id: str) -> None:
    """Two repositories with twelve pull requests each, many with the same creation time."""
    for repo in ("r1", "r2"):
        await tx.execute(
            "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
            " head_commit, created_at)"
            " VALUES (:id, :organization_id, :full_name, 'local', '', 'main', '', 1)",
            id=repo,
            organization_id=organization_id,
            full_name=f"acme/{repo}",
        )
        for number in range(1, 13):
            await tx.execute(
                "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch,"
                " head_commit, base_commit, state, draft, created_at) VALUES (:repo, :number,"
                " '', '', :branch, 'main', '', '', :state, FALSE, :at)",
                repo=repo,
                number=number,
                branch=f"b{number}",
                state="open" if number % 3 else "merged",
                at=number // 5,
            )


async def _execute(tx: Transaction, sql: str) -> None:
    await tx.execute(sql)
