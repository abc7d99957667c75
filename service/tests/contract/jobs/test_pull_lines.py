"""The list of pull requests with the jobs behind them, on both stores."""

import pytest

from agentjobs.jobs.views import pull_lines
from agentjobs.jobs.views.pull_lines import PullFilter, PullPage, list_pull_lines, recent_authors
from agentjobs.organizations.authentication import Caller
from agentjobs.pulls.pulls import PullCursor
from agentjobs.store.database import Transaction
from tests.support.jobs import JobHarness


@pytest.fixture
async def caller(harness: JobHarness) -> Caller:
    """Twelve pull requests, the higher the newer; each third by Ada's job, the rest by a key's."""
    caller, other = await harness.organization(), await harness.organization("other")
    await harness.db.transact(_fill, caller, 12)
    await harness.db.transact(_fill, other, 3)
    return caller


async def listed(harness: JobHarness, caller: Caller, **filters: str) -> list[int]:
    page = await page_of(harness, caller, **filters)
    return [line.number for line in page.lines]


async def page_of(
    harness: JobHarness,
    caller: Caller,
    *,
    limit: int = 20,
    before: PullCursor | None = None,
    **filters: str,
) -> PullPage:
    return await list_pull_lines(
        harness.db,
        caller.organization_id,
        caller.organization,
        PullFilter(**filters),
        limit=limit,
        before=before,
    )


async def test_filters_narrow_the_list_and_can_be_combined(
    harness: JobHarness, caller: Caller
) -> None:
    assert await listed(harness, caller) == list(range(12, 0, -1))
    assert await listed(harness, caller, author="usr_ada") == [12, 9, 6, 3]
    assert await listed(harness, caller, agent="tester") == [12, 10, 8, 6, 4, 2]
    assert await listed(harness, caller, author="usr_ada", agent="tester") == [12, 6]
    assert await listed(harness, caller, state="merged") == [12, 8, 4]
    assert await listed(harness, caller, text="CHANGE 1") == [12, 11, 10, 1]
    assert await listed(harness, caller, text="#7") == [7]
    assert await listed(harness, caller, text="100%") == []
    assert await listed(harness, caller, text="a\0b") == []
    assert await listed(harness, caller, repo="acme/shop", state="open", text="2") == [2]
    assert await listed(harness, caller, repo="other/shop") == []


async def test_a_line_has_the_author_the_size_and_the_number_of_comments(
    harness: JobHarness, caller: Caller
) -> None:
    newest, *_, oldest = (await page_of(harness, caller)).lines
    assert (newest.author_id, newest.author, newest.agent) == ("usr_ada", "Ada", "tester")
    assert (newest.additions, newest.deletions, newest.comments) == (None, None, 0)
    # The first job opened it; the changes of both count.
    assert (oldest.author, oldest.additions, oldest.deletions, oldest.comments) == ("ci", 7, 2, 2)
    assert oldest.path == "/acme/acme/shop/pulls/1"


async def test_pages_have_no_gap_and_no_repeat_even_if_a_search_stops_early(
    harness: JobHarness, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_lines, "MAX_SCANNED", 5)
    for filters, expected in (({}, list(range(12, 0, -1))), ({"author": "usr_ada"}, [12, 9, 6, 3])):
        numbers: list[int] = []
        before: PullCursor | None = None
        for _ in range(20):
            page = await page_of(harness, caller, limit=2, before=before, **filters)
            numbers += [line.number for line in page.lines]
            before = page.next_before
            if before is None:
                break
        assert numbers == expected


async def test_authors_are_those_of_recent_pull_requests(
    harness: JobHarness, caller: Caller
) -> None:
    authors = await recent_authors(harness.db, caller.organization_id)
    assert [(author.id, author.name) for author in authors] == [
        ("usr_ada", "Ada"),
        ("key_acme", "ci"),
    ]


async def _fill(tx: Transaction, caller: Caller, count: int) -> None:
    repo = await tx.fetch_one(
        "SELECT id FROM repos WHERE organization_id = :id", id=caller.organization_id
    )
    assert repo is not None
    for number in range(1, count + 1):
        await tx.execute(
            "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch,"
            " head_commit, base_commit, state, draft, created_at) VALUES (:repo, :number,"
            " :title, '', :branch, 'main', '', '', :state, FALSE, :at)",
            repo=repo["id"],
            number=number,
            title=f"Change {number}",
            branch=f"b{number}",
            state="open" if number % 4 else "merged",
            at=number // 3,
        )
        is_ada = number % 3 == 0
        await _insert_job(tx, caller, repo["id"], number, 1, is_ada=is_ada)
    await _insert_job(tx, caller, repo["id"], 1, 2, is_ada=True)
    for attempt, additions in ((1, 5), (2, 2)):
        await tx.execute(
            "INSERT INTO job_diffs"
            " (job_id, content, is_truncated, additions, deletions, created_at)"
            " VALUES (:id, :content, FALSE, :additions, 1, 1)",
            id=_job_id(caller, 1, attempt),
            content=b"",
            additions=additions,
        )
    for number in (1, 2):
        await tx.execute(
            "INSERT INTO pull_comments (id, repo_id, number, author, body, created_at)"
            " VALUES (:id, :repo, 1, 'Ada', 'Hello', 1)",
            id=f"cmt_{caller.organization}_{number}",
            repo=repo["id"],
        )


def _job_id(caller: Caller, number: int, attempt: int) -> str:
    return f"job_{attempt}_{caller.organization}_{number:02}"


async def _insert_job(
    tx: Transaction, caller: Caller, repo_id: str, number: int, attempt: int, *, is_ada: bool
) -> None:
    await tx.execute(
        "INSERT INTO jobs (id, organization_id, repo_id, repo, agent, branch, status, created_at,"
        " queued_at, config_override, pr_number, created_by, created_by_name)"
        " VALUES (:id, :organization_id, :repo_id, '', :agent, :branch, 'completed', 1, 1, '{}',"
        " :number, :who, :name)",
        id=_job_id(caller, number, attempt),
        organization_id=caller.organization_id,
        repo_id=repo_id,
        agent="fixer" if number % 2 else "tester",
        branch=f"b{number}",
        number=number,
        who="usr_ada" if is_ada else f"key_{caller.organization}",
        name="Ada" if is_ada else "ci",
    )
