"""Pull requests over the API: listing, merging and closing those of the platform `local`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Transaction
from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
from agentjobs_worker.agents.catalog import Catalog
from service.tests.unit.web.service import refusal
from tests.support.git_commands import git_output
from tests.support.local_repository import PUBLIC_URL, Platform, make_platform


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    return await make_platform(database, tmp_path)


@pytest.fixture
async def api(platform: Platform) -> AsyncIterator[httpx.AsyncClient]:
    """With a key that has the scope `pulls`."""
    jobs = JobsContext(platform.db, platform.settings, Catalog([]))
    context = WebContext(jobs, ApiKeyAuthenticator(platform.db))
    transport = httpx.ASGITransport(build_application(context))
    headers = await key_of(platform, name="merger", pulls=True)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://testserver/v1", headers=headers
    ) as client:
        yield client


async def key_of(platform: Platform, organization: str = "acme", **options: Any) -> dict[str, str]:
    created = await create_key(platform.db, organization, **options)
    return {"Authorization": f"Bearer {created.key}"}


async def pulls(api: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    response = await api.get("/pulls", params=query)
    assert response.status_code == 200, response.text
    listed: list[dict[str, Any]] = response.json()["pulls"]
    return listed


async def path_of(api: httpx.AsyncClient, number: int = 1) -> str:
    listed = {pull["number"]: pull["id"] for pull in await pulls(api)}
    return f"/pulls/{listed[number]}"


async def test_a_pull_request_is_shown(platform: Platform, api: httpx.AsyncClient) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    (listed,) = await pulls(api)
    shown = (await api.get(f"/pulls/{listed['id']}")).json()
    assert shown == listed
    assert shown.pop("created_at").endswith("Z")
    assert shown == {
        "id": f"pull_{platform.repo.repo_id.removeprefix('repo_')}_1",
        "repo": "acme/shop",
        "number": 1,
        "title": "Fix the price",
        "url": f"{PUBLIC_URL}/acme/acme/shop/pulls/1",
        "state": "open",
        "draft": False,
        "base_branch": "main",
        "head_branch": "agentjobs/one",
        "head_commit": platform.head("agentjobs/one"),
        "merge_commit": None,
        "job_id": None,
        "merged_at": None,
        "closed_at": None,
    }


async def test_pull_requests_are_filtered_and_paged(
    platform: Platform, api: httpx.AsyncClient
) -> None:
    for number in range(1, 6):
        await platform.open_pull(f"agentjobs/{number}", {"a": str(number)})
    assert (await api.post(f"{await path_of(api, 2)}/close")).status_code == 200
    assert [pull["number"] for pull in await pulls(api, state="closed")] == [2]
    assert [pull["number"] for pull in await pulls(api, state="open")] == [5, 4, 3, 1]
    for repo in ("acme/shop", platform.repo.repo_id):
        assert len(await pulls(api, repo=repo)) == 5
    numbers, cursor = [], None
    while True:
        query = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
        page = (await api.get("/pulls", params=query)).json()
        numbers += [pull["number"] for pull in page["pulls"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert numbers == [5, 4, 3, 2, 1]


async def test_the_pull_request_of_a_job_is_found(
    platform: Platform, api: httpx.AsyncClient
) -> None:
    for branch in ("agentjobs/one", "agentjobs/two"):
        await platform.job_credential(branch)
        await platform.open_pull(branch, {"a": branch})
    rows = await platform.db.fetch_all("SELECT id FROM jobs ORDER BY id")
    opened, continued = (row["id"] for row in rows)

    async def number(tx: Transaction) -> None:
        await tx.execute("UPDATE jobs SET pr_number = 2")

    await platform.db.transact(number)
    for job in (opened, continued):
        assert [(pull["number"], pull["job_id"]) for pull in await pulls(api, job_id=job)] == [
            (2, opened)
        ]
    assert await pulls(api, job_id=opened, state="closed") == []
    assert await pulls(api, job_id="job_" + "0" * 26) == []


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_a_pull_request_is_merged_and_audited(
    platform: Platform, api: httpx.AsyncClient, method: str
) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    platform.propose("main", {"b": "2"})
    head = platform.head("agentjobs/one")
    merged = await api.post(
        f"{await path_of(api)}/merge", json={"method": method, "head_commit": head}
    )
    assert merged.status_code == 200, merged.text
    assert (merged.json()["state"], merged.json()["head_commit"]) == ("merged", head)
    assert merged.json()["merge_commit"] == platform.head("main")
    assert merged.json()["merged_at"] is not None
    assert git_output("show", "main:a", cwd=platform.git_dir) == "1"
    (entry,) = await list_entries(
        platform.db, platform.organization.id, AuditFilter(action="pull"), limit=5
    )
    assert (entry.action, entry.target) == ("pull.merged", "acme/shop#1")
    assert (entry.actor_kind, entry.actor) == ("key", "merger")
    assert (entry.actor_id or "").startswith("key_")


async def test_merging_needs_no_body(platform: Platform, api: httpx.AsyncClient) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    path = await path_of(api)
    assert (await api.post(f"{path}/merge")).json()["state"] == "merged"
    for action in ("merge", "close"):
        assert refusal(await api.post(f"{path}/{action}")) == (409, "pull_not_open")


async def test_closing_is_audited(platform: Platform, api: httpx.AsyncClient) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    closed = (await api.post(f"{await path_of(api)}/close")).json()
    assert (closed["state"], closed["merged_at"]) == ("closed", None)
    assert closed["closed_at"] is not None
    (entry,) = await list_entries(
        platform.db, platform.organization.id, AuditFilter(action="pull"), limit=5
    )
    assert (entry.action, entry.actor_kind, entry.actor) == ("pull.closed", "key", "merger")


async def test_what_cannot_be_merged_is_explained(
    platform: Platform, api: httpx.AsyncClient
) -> None:
    await platform.open_pull("agentjobs/one", {"src/shop.py": "PRICE = 3\n"})
    await platform.open_pull("agentjobs/two", {"b": "1"}, draft=True)
    platform.propose("main", {"src/shop.py": "PRICE = 4\n"})
    conflict = await api.post(f"{await path_of(api)}/merge", json={"method": "rebase"})
    assert refusal(conflict) == (409, "pull_not_mergeable")
    assert conflict.json()["error"]["details"] == {"files": ["src/shop.py"]}
    draft = await api.post(f"{await path_of(api, 2)}/merge")
    assert refusal(draft) == (409, "pull_not_mergeable")
    newer = await api.post(f"{await path_of(api)}/merge", json={"head_commit": "0" * 40})
    assert refusal(newer) == (409, "pull_changed")
    head = platform.head("agentjobs/one")
    assert newer.json()["error"]["details"] == {"head_commit": head}
    assert [pull["state"] for pull in await pulls(api)] == ["open", "open"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"method": "octopus"}, "method"),
        ({"method": None}, "method"),
        ({"head_commit": "main"}, "head_commit"),
        ({"head_commit": "a" * 41}, "head_commit"),
        ({"head_commit": 7}, "head_commit"),
    ],
)
async def test_an_invalid_request_merges_nothing(
    platform: Platform, api: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    response = await api.post(f"{await path_of(api)}/merge", json=body)
    assert refusal(response) == (422, "validation_failed")
    assert [fault["field"] for fault in response.json()["error"]["details"]] == [field]
    assert (await pulls(api))[0]["state"] == "open"


@pytest.mark.parametrize("scope", ["read", "jobs"])
async def test_only_a_key_with_the_scope_pulls_may_merge_and_close(
    platform: Platform, api: httpx.AsyncClient, scope: str
) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    path = await path_of(api)
    headers = await key_of(platform, scope=scope)
    assert (await api.get(path, headers=headers)).status_code == 200
    for action in ("merge", "close"):
        response = await api.post(f"{path}/{action}", headers=headers)
        assert refusal(response) == (403, "insufficient_scope")
        assert "`pulls`" in response.json()["error"]["message"]
    assert (await pulls(api))[0]["state"] == "open"


async def test_another_organization_sees_and_changes_nothing(
    platform: Platform, api: httpx.AsyncClient
) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    path = await path_of(api)
    await create_organization(platform.db, Plans(platform.settings.plans), "other", "free")
    headers = await key_of(platform, "other", pulls=True)
    assert (await api.get("/pulls", headers=headers)).json()["pulls"] == []
    responses = [
        await api.get(path, headers=headers),
        await api.post(f"{path}/merge", headers=headers),
        await api.post(f"{path}/close", headers=headers),
    ]
    assert [refusal(response) for response in responses] == [(404, "pull_not_found")] * 3
    response = await api.get(f"/pulls?repo={platform.repo.repo_id}", headers=headers)
    assert refusal(response) == (404, "repo_not_found")
    assert (await pulls(api))[0]["state"] == "open"


@pytest.mark.parametrize(
    "pull_id",
    ["none", "pull_1_1", f"pull_{'0' * 26}_1", f"pull_{'0' * 26}_0", f"pull_{'0' * 26}_{'9' * 40}"],
)
async def test_an_unknown_pull_request_is_not_found(api: httpx.AsyncClient, pull_id: str) -> None:
    assert refusal(await api.get(f"/pulls/{pull_id}")) == (404, "pull_not_found")
    assert refusal(await api.post(f"/pulls/{pull_id}/merge")) == (404, "pull_not_found")


@pytest.mark.parametrize(
    "query", ["state=draft", "limit=0", "limit=101", "job_id=x", "cursor=am9icyB4", "repo="]
)
async def test_an_invalid_query_is_refused(api: httpx.AsyncClient, query: str) -> None:
    assert refusal(await api.get(f"/pulls?{query}")) == (422, "validation_failed")
