"""The verification between agent and pull request, over HTTP on a running service."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.service import Api, Service, sample_repository, wait_until

AGENTS = """
[[agents]]
id = "edit"
name = "Edit"
command = ["sh", "-c", "echo changed >> edited.txt"]

[[agents]]
id = "unsure"
name = "Unsure"
command = ["sh", "-c", "echo x >> edited.txt; echo Unproven work > ${AGENTJOBS_REPORT%/*}/draft.md"]

[[agents]]
id = "checked"
name = "Checked by its operator"
command = ["sh", "-c", "echo changed >> edited.txt"]
verify = ["sh", "-c", "echo looking; grep -q changed edited.txt && echo left > left''over.txt"]

[[agents]]
id = "strict"
name = "Strict"
command = ["sh", "-c", "echo changed >> edited.txt"]
verify = ["sh", "-c", "echo nothing is good enough; exit 3"]
on_verify_failure = "fail"

[[agents]]
id = "lenient"
name = "Lenient"
command = ["sh", "-c", "echo changed >> edited.txt"]
verify = ["sh", "-c", "echo nothing is good enough; exit 3"]

[[agents]]
id = "unhurried"
name = "Unhurried"
command = ["sh", "-c", "echo changed >> edited.txt"]
verify = ["sleep", "2"]

[[agents]]
id = "slow-check"
name = "Slow check"
command = ["sh", "-c", "echo changed >> edited.txt"]
verify = ["sleep", "600"]
timeout_seconds = 2
"""
CONFIGURATION = """
verify = "test -s edited.txt && ! test -e secret.txt"
protected_paths = ["vault/**"]
colour = "blue"
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("verification") / "data"
    directory.mkdir()
    (directory / "agentjobs.toml").write_text(AGENTS)
    running = Service(directory, {"AGENTJOBS_CACHE_MAX_BYTES": "1"}).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def api(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Api:
    sources = tmp_path_factory.mktemp("sources")
    repositories = {
        "acme/shop": {
            "app.py": "x = 1\n",
            "AGENTS.md": "Be kind.\n",
            "Makefile": "test:\n\ttrue\n",
        },
        "acme/configured": {"app.py": "x = 1\n", ".agentjobs.toml": CONFIGURATION},
        "acme/broken": {"app.py": "x = 1\n", ".agentjobs.toml": "\nverify = 3\n"},
    }
    client = service.client(service.key())
    for name, files in repositories.items():
        service.connect(sample_repository(sources / name, files), name)
        client.wait_ready(name)
    return client


def pull_of(api: Api, job: dict[str, Any]) -> str:
    return api.http.get(job["pr_url"]).text


def test_a_passing_check_is_reported_in_the_pull_request_and_the_job(api: Api) -> None:
    job = api.finish("acme/shop", "checked")
    assert job["status"] == "completed", job
    assert job["verification"]["passed"]
    assert job["verification"]["exit_code"] == 0
    assert "Verification" in pull_of(api, job)
    assert "looking" in api.log(job["job_id"])
    phases = ["queued", "prepare", "agent", "checks", "push", "pull_request"]
    assert [each["phase"] for each in job["phases"]] == phases
    assert job["phases"][-1]["ended_at"] is not None


def test_files_created_by_a_check_are_not_committed(api: Api) -> None:
    job = api.finish("acme/shop", "checked")
    page = pull_of(api, job)
    assert "edited.txt" in page
    assert "leftover.txt" not in page
    diff = api.http.get(f"/jobs/{job['job_id']}/diff").text
    assert diff.count("diff --git") == 1
    assert "+++ b/edited.txt\n@@ -0,0 +1 @@\n+changed\n" in diff


def test_a_failing_check_makes_a_draft_with_its_last_lines(api: Api) -> None:
    job = api.finish("acme/shop", "lenient")
    assert job["status"] == "completed", job
    assert job["verification"]["exit_code"] == 3
    assert "nothing is good enough" in pull_of(api, job)
    assert "draft" in pull_of(api, job)
    assert "pr.review_requested" not in api.events(job["job_id"])


def test_an_agent_requests_a_draft_with_its_reason(api: Api) -> None:
    job = api.finish("acme/shop", "unsure")
    assert job["status"] == "completed", job
    assert "Unproven work" in pull_of(api, job)
    assert "draft" in pull_of(api, job)
    assert "pr.review_requested" not in api.events(job["job_id"])


def test_a_required_check_that_fails_fails_the_job_and_pushes_nothing(api: Api) -> None:
    job = api.finish("acme/shop", "strict")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "verification_failed"
    assert "nothing is good enough" in job["error"]["message"]
    assert job["pr_url"] is None
    assert "pushed" not in api.log(job["job_id"])
    diff = api.http.get(f"/jobs/{job['job_id']}/diff", headers={"Accept": "application/json"})
    assert [file["path"] for file in diff.json()["files"]] == ["edited.txt"]
    assert diff.json()["head_commit"] is None


def test_a_check_that_times_out_has_failed(api: Api) -> None:
    job = api.finish("acme/shop", "slow-check")
    assert job["status"] == "completed", job
    assert job["verification"]["exit_code"] is None
    assert not job["verification"]["passed"]
    assert job["verification"]["stopped_by"] == "it did not finish within 2 seconds"
    assert "did not finish within 2 seconds" in pull_of(api, job)


def test_a_cancelled_check_cancels_the_job(api: Api) -> None:
    job_id = api.create("acme/shop", "unhurried")
    wait_until(lambda: "verification: sleep" in api.log(job_id), "the check to begin")
    api.http.post(f"/jobs/{job_id}/cancel")
    job = api.wait_status(job_id, "completed", "failed", "cancelled")
    assert (job["status"], job["pr_url"]) == ("cancelled", None)


def test_a_copy_above_the_cache_limit_stays_until_its_commit_is_pushed(
    service: Service, api: Api
) -> None:
    """The cache is limited to one byte, and the copy was last used long ago."""
    job_id = api.create("acme/shop", "unhurried")
    wait_until(lambda: "verification: sleep" in api.log(job_id), "the check to begin")
    for repository in service.data_dir.rglob("*.git"):
        os.utime(repository, (0, 0))
    job = api.wait_status(job_id, "completed", "failed")
    assert job["status"] == "completed", job


def test_a_repository_configures_its_own_check(api: Api) -> None:
    job = api.finish("acme/configured", "edit")
    assert job["status"] == "completed", job
    assert job["verification"]["passed"]
    assert "test -s edited.txt" in job["verification"]["command"]
    assert "colour" in api.log(job["job_id"])


def test_an_invalid_configuration_is_reported_with_its_line_and_nothing_runs(api: Api) -> None:
    job = api.finish("acme/broken", "edit")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "invalid_configuration"
    assert ".agentjobs.toml, line 2" in job["error"]["message"]
    assert job["started_at"] is None
    assert api.events(job["job_id"]) == ["job.queued", "job.failed"]


def test_the_prompt_is_stored_and_shown(api: Api) -> None:
    job = api.finish("acme/shop", "edit", config_override={"prompt": "Make it blue."})
    response = api.http.get(f"/jobs/{job['job_id']}/prompt").json()
    assert response["job_id"] == job["job_id"]
    for text in ("Make it blue.", "Python (1)", "AGENTS.md", "make test", "acme/shop"):
        assert text in response["prompt"]


def test_the_prompt_of_another_organizations_job_is_not_found(service: Service, api: Api) -> None:
    job = api.finish("acme/shop", "edit")
    service.admin("orgs", "create", "other")
    outsider = service.client(service.key("--org", "other"))
    response = outsider.http.get(f"/jobs/{job['job_id']}/prompt")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "job_not_found")
