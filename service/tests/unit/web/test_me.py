"""`GET /me`: the key, its organization, plan and limits."""

from pathlib import Path

import pytest

from agentjobs.organizations.budgets import set_budget
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.service import Service, refusal


async def test_a_key_learns_whose_it_is_and_what_it_may_do(service: Service) -> None:
    await service.harness.organization("small", plan="free")
    await set_budget(service.harness.db, "small", daily="20", job="0.25")
    headers = await service.key(
        "small", name="nightly", scope="read", expires_at=now_ms() + 2 * DAY_MS
    )
    me = (await service.get("/v1/me", headers=headers)).json()
    assert me["organization"]["name"] == "small"
    assert me["organization"]["id"].startswith("org_")
    assert me["plan"] == {"name": "free", "concurrent_jobs": 1}
    assert me["key"].pop("id").startswith("key_")
    assert me["key"].pop("expires_at").endswith("Z")
    assert me["key"] == {"name": "nightly", "scopes": ["read"]}
    assert me["limits"] == {
        "queued_jobs": 1_000,
        "open_requests": 200,
        "rate_limit_per_second": 100,
        "rate_limit_burst": 500,
        "job_budget_usd": 0.25,
        "daily_budget_usd": 20,
    }


async def test_a_key_that_never_expires_and_has_no_budget_shows_null(service: Service) -> None:
    me = (await service.get("/v1/me")).json()
    assert me["key"]["expires_at"] is None
    assert me["key"]["scopes"] == ["jobs"]
    assert (me["limits"]["job_budget_usd"], me["limits"]["daily_budget_usd"]) == (None, None)


async def test_nobody_learns_anything_without_a_key(service: Service) -> None:
    response = await service.get("/v1/me", headers={"Authorization": "Bearer none"})
    assert refusal(response) == (401, "unauthorized")


class TestWithoutRateLimit:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(data_dir=str(tmp_path), rate_limit_per_second=0)

    async def test_the_rate_is_null(self, service: Service) -> None:
        limits = (await service.get("/v1/me")).json()["limits"]
        assert (limits["rate_limit_per_second"], limits["rate_limit_burst"]) == (None, None)
