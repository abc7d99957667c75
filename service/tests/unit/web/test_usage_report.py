"""`GET /usage`: its period, its groups and invalid parameters."""

from urllib.parse import quote

import pytest

from agentjobs.web.api.times import parse_time
from service.tests.unit.web.service import Service, refusal


async def test_the_last_thirty_days_are_the_default(service: Service) -> None:
    await service.create_job()
    usage = (await service.get("/v1/usage")).json()
    started, ended = parse_time(usage["from"]), parse_time(usage["to"])
    assert started is not None
    assert ended is not None
    assert ended - started == 30 * 86_400_000
    assert usage["groups"] == []
    assert usage["total"] == {
        "jobs": {
            "total": 1,
            "queued": 1,
            "running": 0,
            "completed": 0,
            "failed": 0,
            "cancelled": 0,
        },
        "agent_seconds": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": 0,
    }


@pytest.mark.parametrize("group_by", ["agent", "repo", "day"])
async def test_sums_are_grouped_on_request(service: Service, group_by: str) -> None:
    job = await service.create_job()
    created_at = (await service.get(f"/v1/jobs/{job}")).json()["created_at"]
    usage = (await service.get(f"/v1/usage?group_by={group_by}")).json()
    keys = {"agent": "fixer", "repo": "acme/shop", "day": created_at[:10]}
    assert [group["key"] for group in usage["groups"]] == [keys[group_by]]
    assert usage["groups"][0]["jobs"] == usage["total"]["jobs"]


async def test_another_organization_sees_only_its_own_jobs(service: Service) -> None:
    await service.create_job()
    await service.harness.organization("other")
    usage = (await service.get("/v1/usage", headers=await service.key("other"))).json()
    assert usage["total"]["jobs"]["total"] == 0


async def test_the_period_is_as_requested(service: Service) -> None:
    usage = (await service.get("/v1/usage?from=2026-01-01&to=2026-01-31T12:00:00+02:00")).json()
    assert (usage["from"], usage["to"]) == ("2026-01-01T00:00:00.000Z", "2026-01-31T10:00:00.000Z")
    assert (await service.get("/v1/usage?from=2024-01-01&to=2025-01-01")).status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("to=2026-02-30", "to"),
        ("from=2026-01-01T25:00:00Z", "from"),
        ("from=2026-01-01T00:00:00", "from"),
        ("from=20260101", "from"),
        ("from=2024-01-01&to=2025-01-02", "from"),
        ("from=2026-01-02&to=2026-01-02", "from"),
        ("from=9999-12-31", "from"),
        ("to=0000-01-01", "to"),
        ("from=2026-01-01&from=2026-01-02", "from"),
        ("group_by=label", "group_by"),
    ],
)
async def test_an_invalid_parameter_is_refused(service: Service, query: str, field: str) -> None:
    response = await service.get(f"/v1/usage?{query}")
    assert refusal(response) == (422, "validation_failed")
    assert [fault["field"] for fault in response.json()["error"]["details"]] == [field]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01t01:00:00.123456789z", 3_600_123),
        ("1970-01-01T01:00:00+01:00", 0),
        # A plus sign that was not encoded.
        ("1970-01-01T01:00:00 01:00", 0),
        ("1970-01-01T00:00:00-00:30", 1_800_000),
        ("1960-01-01", 0),
        ("9999-12-31T23:59:59-23:59", 253_402_300_799_999),
        ("0001-01-01T00:00:00+23:59", 0),
        ("1970-01-01T00:00:60Z", None),
        ("1970-01-01T00:00:00+24:00", None),
        ("1970-13-01", None),
        ("١٩٧٠-01-01", None),
        ("1970-01-01\n", None),
        ("", None),
    ],
)
async def test_times_are_rfc_3339_or_dates(service: Service, text: str, at: int | None) -> None:
    assert parse_time(text) == at
    response = await service.get(f"/v1/usage?to={quote(text)}")
    assert response.status_code == (422 if at is None else 200)
