"""Lists of agents and repositories: complete by default, paged on request."""

import pytest

from service.tests.unit.web.service import Service, refusal
from tests.support.jobs import insert_repo


async def test_every_agent_is_listed_with_what_the_plan_allows(service: Service) -> None:
    await service.harness.organization("small", plan="free")
    response = await service.get("/v1/agents", headers=await service.key("small"))
    what = {"description": "", "result": "pull_request"}
    fixer = {"id": "fixer", "name": "Fixer", "available": True, "plan_required": "free"}
    pro = {"id": "pro-fixer", "name": "Pro-Fixer", "available": False, "plan_required": "pro"}
    assert response.json() == {"agents": [fixer | what, pro | what], "next_cursor": None}


async def test_agents_are_paged_on_request(service: Service) -> None:
    first = (await service.get("/v1/agents?limit=1")).json()
    rest = (await service.get(f"/v1/agents?cursor={first['next_cursor']}")).json()
    assert [agent["id"] for agent in first["agents"] + rest["agents"]] == ["fixer", "pro-fixer"]
    assert rest["next_cursor"] is None


async def test_every_repository_is_listed_without_parameters(service: Service) -> None:
    for number in range(120):
        await service.harness.db.transact(
            insert_repo, service.caller.organization_id, f"acme/r{number}", "indexing"
        )
    listed = (await service.get("/v1/repos")).json()
    assert (len(listed["repos"]), listed["next_cursor"]) == (121, None)
    shop = next(repo for repo in listed["repos"] if repo["full_name"] == "acme/shop")
    assert {name: shop[name] for name in ("platform", "index_status", "line_count")} == {
        "platform": "local",
        "index_status": "ready",
        "line_count": 0,
    }
    paged, query = [], "?limit=50"
    while query:
        page = (await service.get(f"/v1/repos{query}")).json()
        paged += page["repos"]
        query = page["next_cursor"] and f"?limit=50&cursor={page['next_cursor']}"
    assert paged == listed["repos"]


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/repos"])
@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "cursor=am9icyB4", "cursor=%C3%A4"])
async def test_an_invalid_page_is_refused(service: Service, path: str, query: str) -> None:
    assert refusal(await service.get(f"{path}?{query}")) == (422, "validation_failed")
