"""The follow-up endpoint."""

import pytest

from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import now_ms
from service.tests.unit.web.service import Service, refusal

NOW = {"prompt": "Now test it."}


async def completed_job(service: Service) -> str:
    """A job whose pull request is open."""
    job_id = await service.create_job()
    await service.harness.db.transact(complete, job_id)
    return job_id


async def complete(tx: Transaction, job_id: str) -> None:
    await tx.execute(
        "UPDATE jobs SET status = 'completed', pr_number = 1, completed_at = :now WHERE id = :id",
        id=job_id,
        now=now_ms(),
    )
    await tx.execute("DELETE FROM job_queue WHERE job_id = :id", id=job_id)
    await tx.execute(
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        " base_commit, state, draft, created_at) SELECT repo_id, 1, 'Fix', '', branch, 'main',"
        " '1', '0', 'open', FALSE, created_at FROM jobs WHERE id = :id",
        id=job_id,
    )


async def test_a_follow_up_gets_the_response_of_a_job(service: Service) -> None:
    job_id = await completed_job(service)
    response = await service.post(f"/v1/jobs/{job_id}/follow-ups", json={**NOW, "unknown": 1})
    assert response.status_code == 202
    receipt = response.json()
    assert set(receipt) == {"job_id", "status", "estimated_start_ms", "warnings"}
    assert receipt["warnings"] == ["`unknown` was ignored: there is no such field."]
    job = (await service.get(f"/v1/jobs/{receipt['job_id']}")).json()
    assert (job["status"], job["repo"], job["agent"]) == ("queued", "acme/shop", "fixer")
    assert job["follows"] == job_id
    assert (await service.get(f"/v1/jobs/{job_id}")).json()["follows"] is None


async def test_a_second_follow_up_is_refused_with_the_active_job(service: Service) -> None:
    path = f"/v1/jobs/{await completed_job(service)}/follow-ups"
    first = (await service.post(path, json=NOW)).json()["job_id"]
    repeated = await service.post(path, json=NOW)
    assert refusal(repeated) == (409, "follow_up_active")
    assert repeated.json()["error"]["details"] == {"job_id": first}


async def test_the_same_request_under_one_key_is_one_follow_up(service: Service) -> None:
    path = f"/v1/jobs/{await completed_job(service)}/follow-ups"
    headers = {"Idempotency-Key": "k"}
    first = await service.post(path, json=NOW, headers=headers)
    repeated = await service.post(path, json=NOW, headers=headers)
    assert repeated.json() == first.json()
    assert repeated.headers["idempotent-replay"] == "true"
    # The same body for another job is another request.
    other_path = f"/v1/jobs/{await service.create_job()}/follow-ups"
    response = await service.post(other_path, json=NOW, headers=headers)
    assert refusal(response) == (422, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["prompt"]),
        (
            {"prompt": " ", "agent": 7, "timeout_seconds": "x"},
            ["agent", "prompt", "timeout_seconds"],
        ),
        ({"prompt": "a\x00b"}, ["prompt"]),
        ({"prompt": "x", "max_cost_usd": 0}, ["max_cost_usd"]),
    ],
)
async def test_every_fault_is_named(
    service: Service, body: dict[str, object], fields: list[str]
) -> None:
    response = await service.post(f"/v1/jobs/{await completed_job(service)}/follow-ups", json=body)
    assert refusal(response) == (422, "validation_failed")
    named = [fault["field"] for fault in response.json()["error"]["details"]]
    assert sorted(named) == fields


async def test_permissions_are_checked_before_the_body(service: Service) -> None:
    job_id = await completed_job(service)
    path = f"/v1/jobs/{job_id}/follow-ups"
    reader = await service.key(scope="read")
    assert refusal(await service.post(path, json=NOW, headers=reader))[0] == 403
    await service.harness.organization("others")
    other = await service.key("others")
    assert refusal(await service.post(path, json=NOW, headers=other)) == (404, "job_not_found")
    none = await service.post("/v1/jobs/none/follow-ups", json=NOW)
    assert refusal(none) == (404, "job_not_found")
