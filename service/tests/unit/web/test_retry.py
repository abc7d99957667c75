"""Running a finished job again over the API."""

from typing import Any

import pytest

from service.tests.unit.web.service import JOB, ORGANIZATION, Service, refusal


async def finished_job(service: Service, **fields: Any) -> str:
    job_id = await service.create_job(**fields)
    assert (await service.post(f"/v1/jobs/{job_id}/cancel")).status_code == 202
    return job_id


async def test_a_retry_is_a_new_job_with_the_same_request(service: Service) -> None:
    request = {
        "ticket_id": "T-1",
        "labels": {"team": "pay"},
        "config_override": {"prompt": "Fix it", "priority": "high"},
    }
    job_id = await finished_job(service, **request)
    response = await service.post(f"/v1/jobs/{job_id}/retry")
    receipt = response.json()
    assert (response.status_code, receipt["status"], receipt["warnings"]) == (202, "queued", [])
    assert receipt["job_id"] != job_id
    job = (await service.get(f"/v1/jobs/{receipt['job_id']}")).json()
    assert {name: job[name] for name in request} == request


async def test_a_retry_may_have_other_labels(service: Service) -> None:
    job_id = await finished_job(service, labels={"team": "pay"})
    body = {"labels": {"run": "2"}, "colour": 1}
    receipt = (await service.post(f"/v1/jobs/{job_id}/retry", json=body)).json()
    assert receipt["warnings"] == ["`colour` was ignored: there is no such field."]
    job = (await service.get(f"/v1/jobs/{receipt['job_id']}")).json()
    assert job["labels"] == {"run": "2"}


async def test_only_a_finished_job_can_be_retried(service: Service) -> None:
    job_id = await service.create_job()
    response = await service.post(f"/v1/jobs/{job_id}/retry")
    assert refusal(response) == (409, "job_not_finished")


async def test_a_retry_with_the_same_key_is_replayed_and_another_job_is_another_request(
    service: Service,
) -> None:
    job_id, other = await finished_job(service), await finished_job(service)
    headers = {"Idempotency-Key": "again"}
    first = await service.post(f"/v1/jobs/{job_id}/retry", headers=headers)
    second = await service.post(f"/v1/jobs/{job_id}/retry", headers=headers)
    assert second.json() == first.json()
    assert second.headers["idempotent-replay"] == "true"
    reused = await service.post(f"/v1/jobs/{other}/retry", headers=headers)
    assert refusal(reused) == (422, "idempotency_key_reused")


async def test_another_organizations_job_is_not_found(service: Service) -> None:
    job_id = await finished_job(service)
    await service.harness.organization("evil")
    response = await service.post(f"/v1/jobs/{job_id}/retry", headers=await service.key("evil"))
    assert refusal(response) == (404, "job_not_found")


async def test_a_key_for_reading_cannot_retry(service: Service) -> None:
    job_id = await finished_job(service)
    headers = await service.key(ORGANIZATION, scope="read")
    response = await service.post(f"/v1/jobs/{job_id}/retry", headers=headers)
    assert refusal(response) == (403, "insufficient_scope")


@pytest.mark.parametrize(
    ("content", "content_type", "expected"),
    [
        (b'{"labels": {"a b": "x"}}', "application/json", (422, "validation_failed")),
        (b'{"labels": 1, "x": "\\u0000"}', "application/json", (422, "validation_failed")),
        (b"[]", "application/json", (400, "invalid_json")),
        (b"   ", "application/json", (400, "invalid_json")),
        (b"{}", "text/plain", (415, "unsupported_media_type")),
        (b"x" * 70_000, "application/json", (413, "payload_too_large")),
    ],
)
async def test_an_invalid_body_is_refused(
    service: Service, content: bytes, content_type: str, expected: tuple[int, str]
) -> None:
    job_id = await finished_job(service)
    headers = {"Content-Type": content_type}
    response = await service.post(f"/v1/jobs/{job_id}/retry", content=content, headers=headers)
    assert refusal(response) == expected


async def test_a_job_of_a_repository_that_is_gone_cannot_be_retried(service: Service) -> None:
    job_id = await finished_job(service)
    db = service.context.db
    await db.transact(lambda tx: tx.execute("UPDATE repos SET disconnected_at = 1"))
    response = await service.post(f"/v1/jobs/{job_id}/retry")
    assert refusal(response) == (422, "repo_not_connected")
    assert JOB["repo"] in response.json()["error"]["message"]
