"""GET /jobs/:id/diff."""

import zlib

import pytest

from agentjobs.store.database import Transaction
from service.tests.unit.web.service import Service, refusal

DIFF = b"""\
diff --git a/caf\xe9 b/caf\xe9
index 1..2 100644
--- a/caf\xe9
+++ b/caf\xe9
@@ -1 +1 @@
-old
+n\xe9w
"""


async def store(tx: Transaction, job_id: str, *, is_truncated: bool = False) -> None:
    await tx.execute(
        "INSERT INTO job_diffs (job_id, content, is_truncated, created_at)"
        " VALUES (:job_id, :content, :is_truncated, 0)",
        job_id=job_id,
        content=zlib.compress(DIFF),
        is_truncated=is_truncated,
    )


async def job_with_diff(service: Service, **options: bool) -> str:
    job_id = await service.create_job()
    await service.harness.db.transact(store, job_id, **options)
    return job_id


async def test_a_diff_is_text_by_default(service: Service) -> None:
    job_id = await job_with_diff(service)
    response = await service.get(f"/v1/jobs/{job_id}/diff")
    assert (response.status_code, response.content) == (200, DIFF)
    assert response.headers["content-type"] == "text/x-diff; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-diff-truncated"] == "false"
    assert response.headers["vary"] == "accept"


async def test_a_diff_is_plain_text_on_request(service: Service) -> None:
    job_id = await job_with_diff(service)
    response = await service.get(f"/v1/jobs/{job_id}/diff", headers={"Accept": "text/plain"})
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("accept", ["application/json", "Application/JSON; q=0.5, */*"])
async def test_a_diff_has_its_files_as_json(service: Service, accept: str) -> None:
    job_id = await job_with_diff(service, is_truncated=True)
    response = await service.get(f"/v1/jobs/{job_id}/diff", headers={"Accept": accept})
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "job_id": job_id,
        "base_commit": None,
        "head_commit": None,
        "truncated": True,
        "files": [
            {
                "path": "caf�",
                "previous_path": None,
                "status": "modified",
                "additions": 1,
                "deletions": 1,
                "binary": False,
                "patch": DIFF.decode(errors="replace"),
            }
        ],
    }


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
async def test_a_job_without_a_diff_says_so(service: Service, accept: str) -> None:
    job_id = await service.create_job()
    response = await service.get(f"/v1/jobs/{job_id}/diff", headers={"Accept": accept})
    assert refusal(response) == (404, "diff_not_available")


async def test_a_diff_is_hidden_from_other_organizations(service: Service) -> None:
    job_id = await job_with_diff(service)
    await service.harness.organization("other")
    response = await service.get(f"/v1/jobs/{job_id}/diff", headers=await service.key("other"))
    assert refusal(response) == (404, "job_not_found")
    assert refusal(await service.get("/v1/jobs/nonsense/diff")) == (404, "job_not_found")
