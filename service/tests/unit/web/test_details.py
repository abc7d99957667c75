"""One agent and one repository."""

from typing import Any

import jsonschema_rs
import pytest

from agentjobs.organizations.budgets import set_budget
from service.tests.unit.web.service import Service, refusal
from tests.support.jobs import insert_repo


async def schema_of(service: Service, agent: str = "fixer") -> dict[str, Any]:
    schema: dict[str, Any] = (await service.get(f"/v1/agents/{agent}")).json()[
        "config_override_schema"
    ]
    return schema


async def test_an_agent_is_shown_with_its_limits(service: Service) -> None:
    agent = (await service.get("/v1/agents/fixer")).json()
    listed = (await service.get("/v1/agents")).json()["agents"][0]
    assert {name: agent[name] for name in listed} == listed
    timeout = service.context.catalog.get("fixer").timeout_seconds  # type: ignore[union-attr]
    assert agent["limits"] == {"timeout_seconds": timeout, "max_cost_usd": None}


async def test_the_schema_accepts_what_a_job_accepts(service: Service) -> None:
    await set_budget(service.harness.db, "acme", job="2.5")
    schema = await schema_of(service)
    validator = jsonschema_rs.Draft202012Validator(schema)
    timeout = schema["properties"]["timeout_seconds"]["maximum"]
    for override in (
        {},
        {"prompt": "Fix it.", "own-key": [1]},
        {"timeout_seconds": timeout},
        {"timeout_seconds": timeout + 1},
        {"max_cost_usd": 2.5},
        {"max_cost_usd": 2.51},
        {"max_cost_usd": 0},
        {"base_branch": "a b"},
        {"priority": "high"},
        {"priority": "now"},
        {"auto_trigger_on_cve_severity": "HIGH"},
        {"reviewers": ["a\nb"]},
    ):
        body = {"repo": "acme/shop", "agent": "fixer", "config_override": override}
        accepted = (await service.post("/v1/jobs", json=body)).status_code == 202
        assert validator.is_valid(override) == accepted, override


async def test_an_unknown_agent_is_not_found(service: Service) -> None:
    assert refusal(await service.get("/v1/agents/none")) == (404, "agent_not_found")
    assert refusal(await service.get("/v1/agents/a/b")) == (404, "not_found")


async def test_a_repository_is_found_by_id_and_by_name(service: Service) -> None:
    organization_id = service.caller.organization_id
    for name in ("acme/dependencies", "group/sub/deep/project", "group/sub/dependencies"):
        await service.harness.db.transact(insert_repo, organization_id, name, "ready")
    for listed in (await service.get("/v1/repos")).json()["repos"]:
        name = listed["full_name"]
        for path in (listed["id"], name, name.replace("/", "%2F")):
            response = await service.get(f"/v1/repos/{path}")
            assert (response.status_code, response.json()) == (200, listed), path


@pytest.mark.parametrize(
    "path",
    ["none", "acme", "acme/none", "acme/shop/", "acme/shop.git", "none/dependencies", "%20", ""],
)
async def test_an_unknown_repository_is_not_found(service: Service, path: str) -> None:
    assert refusal(await service.get(f"/v1/repos/{path}"))[0] == 404


async def test_a_repository_of_another_organization_is_not_found(service: Service) -> None:
    await service.harness.organization("other")
    headers = await service.key("other")
    db = service.harness.db
    await db.transact(insert_repo, service.caller.organization_id, "acme/secret", "ready")
    repos = (await service.get("/v1/repos")).json()["repos"]
    secret = next(repo for repo in repos if repo["full_name"] == "acme/secret")
    for path in (secret["id"], "acme/secret"):
        response = await service.get(f"/v1/repos/{path}", headers=headers)
        assert refusal(response) == (404, "repo_not_found")
