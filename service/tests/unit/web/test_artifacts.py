"""GET /jobs/:id/artifacts and the downloads."""

import pytest

from agentjobs.jobs.results.artifacts import store_artifacts
from agentjobs_runtime.agents.artifacts import Artifact
from service.tests.unit.web.service import Service, refusal

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 2_000_000
HTML = b"<!doctype html><script>alert(1)</script>"


async def job_with_artifacts(service: Service) -> str:
    job_id = await service.create_job()
    files = [Artifact("shot.png", PNG), Artifact("page.png", HTML), Artifact("raw", b"\xff")]
    await store_artifacts(service.harness.db, await service.harness.claim(), files)
    return job_id


async def test_artifacts_are_listed(service: Service) -> None:
    job_id = await job_with_artifacts(service)
    response = await service.get(f"/v1/jobs/{job_id}/artifacts")
    listed = response.json()["artifacts"]
    assert [(each["name"], each["media_type"], each["size_bytes"]) for each in listed] == [
        ("page.png", "text/plain", len(HTML)),
        ("raw", "application/octet-stream", 1),
        ("shot.png", "image/png", len(PNG)),
    ]
    assert listed[0]["created_at"].endswith("Z")


async def test_a_job_without_artifacts_has_an_empty_list(service: Service) -> None:
    job_id = await service.create_job()
    assert (await service.get(f"/v1/jobs/{job_id}/artifacts")).json() == {"artifacts": []}


@pytest.mark.parametrize(
    ("name", "content", "content_type"),
    [
        ("shot.png", PNG, "image/png"),
        ("page.png", HTML, "text/plain; charset=utf-8"),
        ("raw", b"\xff", "application/octet-stream"),
    ],
)
async def test_an_artifact_is_a_download_that_browsers_do_not_interpret(
    service: Service, name: str, content: bytes, content_type: str
) -> None:
    job_id = await job_with_artifacts(service)
    response = await service.get(f"/v1/jobs/{job_id}/artifacts/{name}")
    assert (response.status_code, response.content) == (200, content)
    assert response.headers["content-type"] == content_type
    assert response.headers["content-length"] == str(len(content))
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in response.headers["content-security-policy"]


async def test_unknown_names_are_refused(service: Service) -> None:
    job_id = await job_with_artifacts(service)
    for name in ("missing", "..%2Fraw", "raw%00", "%ff", "raw%0a", "RAW", "*"):
        response = await service.get(f"/v1/jobs/{job_id}/artifacts/{name}")
        assert refusal(response)[0] == 404, name
    assert refusal(await service.get(f"/v1/jobs/{job_id}/artifacts/missing")) == (
        404,
        "artifact_not_found",
    )


async def test_artifacts_are_hidden_from_other_organizations(service: Service) -> None:
    job_id = await job_with_artifacts(service)
    await service.harness.organization("other")
    headers = await service.key("other")
    for path in ("artifacts", "artifacts/raw"):
        response = await service.get(f"/v1/jobs/{job_id}/{path}", headers=headers)
        assert refusal(response) == (404, "job_not_found")
        assert refusal(await service.get(f"/v1/jobs/job_x/{path}")) == (404, "job_not_found")
