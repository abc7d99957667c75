"""GET /jobs/:id/steps: what an agent did, in pages, for its organization only."""

import pytest

from service.tests.unit.web.service import Service, refusal
from tests.support.steps import insert_steps

COMMAND = {"kind": "command", "title": "pytest", "detail": "1 failed\x1b[0m"}
MODEL = {"kind": "model", "title": "large", "duration_ms": 1_500, "cost_nanousd": 12_400_000}


@pytest.fixture
async def job(service: Service) -> str:
    job_id = await service.create_job()
    failed = {**COMMAND, "state": "failed", "exit_code": 2}
    await insert_steps(service.harness.db, job_id, MODEL, failed, MODEL, COMMAND)
    return job_id


async def listed(service: Service, job: str, query: str) -> list[int]:
    page = (await service.get(f"/v1/jobs/{job}/steps?{query}")).json()
    return [step["sequence"] for step in page["steps"]]


async def test_steps_are_listed_with_their_results(service: Service, job: str) -> None:
    reader = await service.key(scope="read")
    response = await service.get(f"/v1/jobs/{job}/steps", headers=reader)
    assert response.status_code == 200
    page = response.json()
    assert page["next_cursor"] is None
    assert page["steps"][:2] == [
        {
            "sequence": 1,
            "kind": "model",
            "title": "large",
            "detail": "",
            "state": "succeeded",
            "exit_code": None,
            "started_at": "2025-10-09T08:53:20.000Z",
            "duration_ms": 1_500,
            "cost_usd": 0.0124,
        },
        {
            "sequence": 2,
            "kind": "command",
            "title": "pytest",
            "detail": "1 failed\x1b[0m",
            "state": "failed",
            "exit_code": 2,
            "started_at": "2025-10-09T08:53:25.000Z",
            "duration_ms": None,
            "cost_usd": None,
        },
    ]


async def test_steps_are_filtered_and_continued(service: Service, job: str) -> None:
    for query, expected in {
        "": [1, 2, 3, 4],
        "kind=command": [2, 4],
        "kind=change": [],
        "after=2": [3, 4],
        "after=4": [],
        "after=1&kind=command&limit=1": [2],
        "limit=3": [1, 2, 3],
    }.items():
        assert await listed(service, job, query) == expected, query
    cursor = (await service.get(f"/v1/jobs/{job}/steps?limit=3")).json()["next_cursor"]
    assert await listed(service, job, f"cursor={cursor}") == [4]
    assert await listed(service, job, f"cursor={cursor}&after=1") == [4]
    for query in ("kind=thought", "after=-1", "after=99999999999", "limit=201", "cursor=x"):
        response = await service.get(f"/v1/jobs/{job}/steps?{query}")
        assert refusal(response) == (422, "validation_failed"), query


async def test_a_job_without_steps_has_an_empty_list(service: Service) -> None:
    response = await service.get(f"/v1/jobs/{await service.create_job()}/steps")
    assert response.json() == {"steps": [], "next_cursor": None}


async def test_the_steps_of_another_organizations_job_are_not_found(
    service: Service, job: str
) -> None:
    await service.harness.organization("rival")
    rival = await service.key(organization="rival")
    for job_id in (job, "job_" + "0" * 26, "nonsense"):
        response = await service.get(f"/v1/jobs/{job_id}/steps", headers=rival)
        assert refusal(response) == (404, "job_not_found"), job_id
