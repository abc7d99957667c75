"""The list of repositories with what happens in each of them, on both stores."""

from typing import Any

import pytest

from agentjobs.advisories.decisions import NewDecision, RepoPackage, decide
from agentjobs.jobs.views.repo_lines import RepoFilter, RepoLine, list_repo_lines, suggest_repos
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from tests.support.jobs import JobHarness, insert_repo
from tests.support.repo_rows import update_repos
from tests.support.stored_findings import PYYAML, REQUESTS, add_findings


@pytest.fixture
async def caller(harness: JobHarness) -> Caller:
    """Of acme/shop, acme/Api and acme/web; another organization has repositories, too."""
    caller = await harness.organization()
    await harness.organization("other")
    for name in ("acme/web", "acme/Api"):
        await harness.db.transact(insert_repo, caller.organization_id, name, "ready")
    return caller


async def lines_of(
    harness: JobHarness, caller: Caller, order: Any = "name", limit: int = 20, **filters: Any
) -> list[RepoLine]:
    return await list_repo_lines(
        harness.db, caller.organization_id, RepoFilter(**filters), order=order, limit=limit
    )


async def names_of(harness: JobHarness, caller: Caller, **options: Any) -> list[str]:
    return [line.repo.full_name for line in await lines_of(harness, caller, **options)]


async def change(harness: JobHarness, name: str, assignment: str) -> None:
    async def write(tx: Transaction) -> None:
        await update_repos(tx, assignment, "r.full_name = :name", name=name)

    await harness.db.transact(write)


async def test_filters_narrow_the_list(harness: JobHarness, caller: Caller) -> None:
    assert set(await names_of(harness, caller)) == {"acme/Api", "acme/shop", "acme/web"}
    assert await names_of(harness, caller, search="API") == ["acme/Api"]
    assert await names_of(harness, caller, search="%") == []
    await change(harness, "acme/web", "platform = 'gitlab', sync_error = 'Gone.'")
    await change(harness, "acme/Api", "index_status = 'indexing', index_due_at = 1")
    assert await names_of(harness, caller, platform="gitlab") == ["acme/web"]
    assert await names_of(harness, caller, state="failing") == ["acme/web"]
    assert await names_of(harness, caller, state="indexing") == ["acme/Api"]
    assert await names_of(harness, caller, state="ready") == ["acme/shop", "acme/web"]
    assert await names_of(harness, caller, state="ready", search="web") == ["acme/web"]
    await change(harness, "acme/shop", "disconnected_at = 1")
    assert await names_of(harness, caller, state="ready") == ["acme/web"]


async def test_the_repository_with_the_latest_job_is_first(
    harness: JobHarness, caller: Caller
) -> None:
    await harness.job(caller, repo="acme/web")
    latest = await harness.job(caller, repo="acme/Api", config_override={"title": "Sort it"})
    lines = await lines_of(harness, caller, order="active")
    assert [line.repo.full_name for line in lines] == ["acme/Api", "acme/web", "acme/shop"]
    assert lines[0].last_job is not None
    assert (lines[0].last_job.job_id, lines[0].last_job.title) == (latest, "Sort it")
    assert lines[2].last_job is None


async def test_open_vulnerabilities_count_by_severity_and_order_the_list(
    harness: JobHarness, caller: Caller
) -> None:
    async def worst_first() -> RepoLine:
        return (await lines_of(harness, caller, order="vulnerable"))[0]

    assert (await worst_first()).worst_severity == ""
    repo_id = await add_findings(harness, caller, REQUESTS, PYYAML)
    line = await worst_first()
    assert line.repo.id == repo_id
    assert line.findings["critical"] == 2
    assert next(iter(line.findings)) == line.worst_severity == "critical"
    rows = await harness.db.fetch_all("SELECT advisory_id FROM findings WHERE name = 'pyyaml'")
    package = RepoPackage(caller.organization_id, repo_id, line.repo.full_name, "PyPI", "pyyaml")
    dismissed = [row["advisory_id"] for row in rows]
    await decide(harness.db, package, dismissed, NewDecision(reason="risk_accepted"))
    assert "critical" not in (await worst_first()).findings


async def test_open_pull_requests_are_counted_and_languages_are_sorted(
    harness: JobHarness, caller: Caller
) -> None:
    await harness.db.transact(_insert_pulls)
    languages = '[["CSS", 1, 5], ["Go", 2, 90], ["C", 1, 7], ["Lua", 1, 1]]'
    await change(harness, "acme/shop", f"languages = '{languages}'")
    (line,) = await lines_of(harness, caller, search="shop")
    assert (line.open_pulls, line.languages) == (2, ("Go", "C", "CSS"))


@pytest.mark.parametrize("order", ["active", "vulnerable", "name"])
async def test_pages_continue_each_other(harness: JobHarness, caller: Caller, order: Any) -> None:
    names = []
    for offset in range(3):
        lines = await list_repo_lines(
            harness.db, caller.organization_id, RepoFilter(), order=order, limit=1, offset=offset
        )
        names += [line.repo.full_name for line in lines]
    assert names == await names_of(harness, caller, order=order)
    assert len(set(names)) == 3


async def _insert_pulls(tx: Transaction) -> None:
    for number, state in enumerate(("open", "merged", "open"), 1):
        await tx.execute(
            "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch,"
            " head_commit, base_commit, state, draft, created_at) SELECT id, :number, 'Change',"
            " '', :branch, 'main', '', '', :state, FALSE, 1 FROM repos"
            " WHERE full_name = 'acme/shop'",
            number=number,
            branch=f"b{number}",
            state=state,
        )


async def test_suggestions_begin_with_the_repositories_of_the_newest_jobs(
    harness: JobHarness, caller: Caller
) -> None:
    async def suggested(**options: Any) -> list[str]:
        repos = await suggest_repos(harness.db, caller.organization_id, **{"limit": 9} | options)
        return [repo.full_name for repo in repos]

    assert sorted(await suggested()) == ["acme/Api", "acme/shop", "acme/web"]
    await harness.job(caller, repo="acme/web")
    assert (await suggested())[0] == "acme/web"
    assert await suggested(limit=1) == ["acme/web"]
    assert await suggested(search="API") == ["acme/Api"]
    assert await suggested(search="_") == []
    await change(harness, "acme/web", "index_status = 'indexing'")
    assert (await suggested())[-1] == "acme/web"
    await change(harness, "acme/web", "disconnected_at = 1")
    assert "acme/web" not in await suggested()
