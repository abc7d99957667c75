"""Every line of the interface specification, over real HTTP against a running service."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.service import Api, Service, git, wait_until

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
EVENTS = ["job.queued", "job.started", "job.completed", "pr.review_requested"]


def moment(text: str) -> datetime:
    assert TIMESTAMP.fullmatch(text)
    return datetime.fromisoformat(text).astimezone(UTC)


def test_the_base_address_ends_with_the_version(service: Service) -> None:
    assert service.base_url.endswith("/v1")


def test_agents_are_listed_with_exactly_the_specified_fields(api: Api) -> None:
    response = api.http.get("/agents")
    assert response.status_code == 200
    agents = {agent["id"]: agent for agent in response.json()["agents"]}
    assert {"lint-fixer", "edit", "premium"} <= agents.keys()
    for agent in agents.values():
        assert isinstance(agent["id"], str)
        assert isinstance(agent["name"], str)
        assert agent["available"] is True
        assert agent["plan_required"] in {"free", "pro", "enterprise"}
    assert agents["premium"]["plan_required"] == "enterprise"


def test_repos_are_listed_with_exactly_the_specified_fields(api: Api) -> None:
    response = api.http.get("/repos")
    assert response.status_code == 200
    (shop,) = [repo for repo in response.json()["repos"] if repo["full_name"] == "acme/shop"]
    assert shop["id"].startswith("repo_")
    assert shop["platform"] == "local"
    assert shop["index_status"] == "ready"
    assert shop["line_count"] == 3


def test_a_job_is_accepted_queued_and_estimated(api: Api) -> None:
    response = api.http.post("/jobs", json={"repo": "acme/shop", "agent": "idle"})
    assert response.status_code == 202
    body = response.json()
    assert set(body) == {"job_id", "status", "estimated_start_ms", "warnings"}
    assert body["job_id"].startswith("job_")
    assert body["status"] == "queued"
    assert isinstance(body["estimated_start_ms"], int)


def test_a_job_produces_a_real_pull_request(api: Api, service: Service) -> None:
    job = api.finish("acme/shop", "edit", ticket_id="SHOP-7")
    assert job["status"] == "completed", job
    assert job["agent"] == "edit"
    assert isinstance(job["pr_number"], int)
    assert job["pr_url"] == f"{service.root_url}/default/acme/shop/pulls/{job['pr_number']}"
    assert moment(job["started_at"]) <= moment(job["completed_at"])
    assert (job["ticket_id"], job["repo"], job["attempt"], job["error"]) == (
        "SHOP-7",
        "acme/shop",
        1,
        None,
    )
    page = api.http.get(job["pr_url"])
    assert page.status_code == 200
    assert "SHOP-7: Edit a file" in page.text
    assert "edited.txt" in page.text


def test_the_pull_requests_branch_can_be_cloned_and_contains_the_change(
    api: Api, service: Service, key: str
) -> None:
    job = api.finish("acme/shop", "edit")
    address = service.root_url.replace("http://", f"http://x:{key}@") + "/git/default/acme/shop.git"
    branch = f"agentjobs/edit/{job['job_id'][-12:]}"
    clone = service.data_dir.parent / f"clone-{job['job_id']}"
    git(service.data_dir, "clone", "--quiet", "--branch", branch, address, str(clone))
    assert (clone / "edited.txt").read_text() == "changed\n"
    message = git(clone, "log", "-1", "--format=%an <%ae>%n%B")
    assert message.startswith("agentjobs <agentjobs@localhost>\nEdit a file\n")
    assert f"Job: {job['job_id']}\nAgent: edit" in message


def test_every_status_change_is_an_event_in_order(api: Api) -> None:
    job = api.finish("acme/shop", "edit")
    events = api.http.get(f"/jobs/{job['job_id']}/events").json()["events"]
    assert [event["event"] for event in events] == EVENTS
    assert [event["sequence"] for event in events] == [1, 2, 3, 4]
    for event in events:
        payload = event["payload"]
        assert list(payload) == ["event", "job_id", "repo", "pr_url", "timestamp"]
        assert payload["job_id"] == job["job_id"]
        assert payload["repo"] == "acme/shop"
        moment(payload["timestamp"])
    assert [event["payload"]["pr_url"] for event in events] == [None, None, *[job["pr_url"]] * 2]


def test_values_that_do_not_exist_yet_are_null(api: Api) -> None:
    job_id = api.create("acme/shop", "sleepy")
    job = api.wait_status(job_id, "running")
    for name in ("pr_url", "pr_number", "completed_at", "error", "ticket_id", "usage"):
        assert job[name] is None
    moment(job["started_at"])
    api.http.post(f"/jobs/{job_id}/cancel")
    api.wait_status(job_id, "cancelled")


def test_a_job_without_changes_fails_with_no_changes(api: Api) -> None:
    job = api.finish("acme/shop", "idle")
    assert (job["status"], job["error"]["code"]) == ("failed", "no_changes")
    assert job["error"]["retryable"] is False
    assert api.events(job["job_id"]) == ["job.queued", "job.started", "job.failed"]


def test_a_crashed_agent_fails_the_job_with_its_last_lines(api: Api) -> None:
    job = api.finish("acme/shop", "crash")
    assert (job["status"], job["error"]["code"]) == ("failed", "agent_failed")
    assert "these are my last words" in job["error"]["message"]
    assert "exit code 3" in job["error"]["message"]


def test_the_log_of_the_worker_says_why_a_job_failed_without_secrets(
    service: Service, api: Api
) -> None:
    job = api.finish("acme/shop", "crash")

    def end() -> dict[str, Any] | None:
        ends = (line for line in service.log().splitlines() if '"job ended"' in line)
        return next((json.loads(line) for line in ends if job["job_id"] in line), None)

    line = wait_until(end, "the end of the job in the log")
    assert line["outcome"] == "failed"
    assert line["reason"] == f"agent_failed: {job['error']['message']}"
    assert "these are my last words [redacted]" in line["reason"]


def test_a_timeout_fails_the_job(api: Api) -> None:
    job = api.finish("acme/shop", "sleepy", config_override={"timeout_seconds": 1})
    assert (job["status"], job["error"]["code"]) == ("failed", "timeout")


def test_a_missing_base_branch_fails_the_job_before_it_starts(api: Api) -> None:
    job = api.finish("acme/shop", "edit", config_override={"base_branch": "nowhere"})
    assert (job["status"], job["error"]["code"]) == ("failed", "invalid_configuration")
    assert "nowhere" in job["error"]["message"]
    assert job["started_at"] is None
    assert api.events(job["job_id"]) == ["job.queued", "job.failed"]


def test_review_of_a_draft_is_requested_once_it_is_ready(api: Api) -> None:
    job = api.finish("acme/shop", "edit", config_override={"draft": True, "title": "Mine"})
    assert api.events(job["job_id"]) == EVENTS[:3]
    assert "Mine" in api.http.get(job["pr_url"]).text


def test_a_cancelled_job_is_stopped_and_ends_with_job_failed(api: Api) -> None:
    job_id = api.create("acme/shop", "sleepy")
    api.wait_status(job_id, "running")
    response = api.http.post(f"/jobs/{job_id}/cancel")
    assert response.status_code == 202
    job = api.wait_status(job_id, "cancelled")
    assert job["error"]["code"] == "cancelled"
    assert api.events(job_id)[-1] == "job.failed"
    repeated = api.http.post(f"/jobs/{job_id}/cancel")
    assert (repeated.status_code, repeated.json()["error"]["code"]) == (409, "job_finished")


def test_waiting_returns_as_soon_as_the_status_changes(api: Api) -> None:
    job_id = api.create("acme/shop", "edit")
    statuses = []
    while not statuses or statuses[-1] not in {"completed", "failed"}:
        statuses.append(api.http.get(f"/jobs/{job_id}?wait_seconds=30").json()["status"])
    assert statuses[-1] == "completed"
    assert len(statuses) <= 3


def test_the_log_of_a_job_is_text(api: Api) -> None:
    job = api.finish("acme/shop", "edit")
    response = api.http.get(f"/jobs/{job['job_id']}/logs")
    assert response.headers["content-type"].startswith("text/plain")
    assert "editing" in response.text
    assert job["pr_url"] in response.text


def test_the_built_in_lint_fixer_repairs_a_python_tree(api: Api) -> None:
    job = api.finish("acme/shop", "lint-fixer")
    assert job["status"] == "completed", job
    # Without the tags that colour it.
    page = re.sub("<[^>]*>", "", api.http.get(f"{job['pr_url']}/files").text)
    assert "app.py" in page
    assert "import os" in page


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/agents"),
        ("GET", "/repos"),
        ("GET", "/jobs"),
        ("POST", "/jobs"),
        ("GET", "/jobs/x"),
    ],
)
def test_every_endpoint_requires_a_token(api: Api, method: str, path: str) -> None:
    for credential in ("", "Bearer x", "Basic x", "Bearer ajk_" + "0" * 38):
        response = api.http.request(method, path, headers={"Authorization": credential})
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert response.json()["error"]["code"] == "unauthorized"


def test_one_organization_sees_nothing_of_another(api: Api, service: Service) -> None:
    job = api.finish("acme/shop", "edit")
    service.admin("orgs", "create", "rival", "--plan", "pro")
    rival = service.client(service.key("--org", "rival", "--git-write"))
    assert rival.http.get("/repos").json()["repos"] == []
    assert rival.http.get("/jobs").json()["jobs"] == []
    agents = {agent["id"]: agent for agent in rival.http.get("/agents").json()["agents"]}
    assert agents["premium"]["available"] is False
    for suffix in ("", "/logs", "/events"):
        response = rival.http.get(f"/jobs/{job['job_id']}{suffix}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "job_not_found")
    response = rival.http.post(f"/jobs/{job['job_id']}/cancel")
    assert response.status_code == 404
    response = rival.http.post("/jobs", json={"repo": "acme/shop", "agent": "edit"})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "repo_not_connected")
    assert rival.http.get(job["pr_url"]).status_code == 404
    unknown = service.root_url + "/git/default/acme/shop.git/info/refs?service=git-upload-pack"
    assert rival.http.get(unknown).status_code == 404
