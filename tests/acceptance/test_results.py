"""What jobs leave besides a pull request, over HTTP on a running service."""

from collections.abc import Iterator

import pytest

from tests.support.service import Api, Service, sample_repository, wait_until

AGENTS = '''
[[agents]]
id = "artifacts"
name = "Artifacts"
command = ["sh", "-c", """
echo changed > edited.txt
echo 12 tests > "$AGENTJOBS_ARTIFACTS/tests.txt"
printf '\\\\211PNG\\\\r\\\\n\\\\032\\\\n' > "$AGENTJOBS_ARTIFACTS/shot.png"
ln -s /etc/passwd "$AGENTJOBS_ARTIFACTS/link"
"""]

[[agents]]
id = "unhurried"
name = "Unhurried"
command = ["sh", "-c", "echo 1 > $AGENTJOBS_ARTIFACTS/partial.txt; echo written; exec sleep 600"]

[[agents]]
id = "reviewer"
name = "Reviewer"
description = "Reviews the code."
result = "report"
command = ["sh", "-c", """
echo changed > edited.txt
printf '# Review\\n\\n<b>All</b> is **well**.\\n' > "$AGENTJOBS_REPORT"
echo '{"risk": "low", "files": ["app.py"]}' > "$AGENTJOBS_RESULT"
echo kept > "$AGENTJOBS_ARTIFACTS/notes.txt"
"""]

[agents.result_schema]
type = "object"
required = ["risk"]
properties.risk.enum = ["low", "high"]

[[agents]]
id = "report"
name = "Writes what it is asked to"
result = "report"
result_schema = {type = "object", required = ["risk"]}
command = ["sh", "-c", """
eval "$(grep -o '"script":"[^"]*"' "$AGENTJOBS_JOB" | cut -d '"' -f 4)"
"""]

[[agents]]
id = "leaky"
name = "Leaky"
result = "report"
result_schema = {type = "object"}
command = ["sh", "-c", """
echo 'The token is TOKEN' > "$AGENTJOBS_REPORT"
echo '{"token": "TOKEN", "risk": "low"}' > "$AGENTJOBS_RESULT"
"""]

[[agents]]
id = "control-characters"
name = "Control characters"
result = "report"
result_schema = {additionalProperties = {type = "string"}}
command = ["sh", "-c", """
echo Fine > "$AGENTJOBS_REPORT"
echo '{"\\\\u0000\\\\u001b[31m": 1}' > "$AGENTJOBS_RESULT"
"""]

[[agents]]
id = "crash"
name = "Crash"
command = ["sh", "-c", "echo why > $AGENTJOBS_ARTIFACTS/trace.txt; exit 3"]

[[agents]]
id = "slow"
name = "Slow"
timeout_seconds = 1
command = ["sh", "-c", "echo so far > $AGENTJOBS_ARTIFACTS/partial.txt; exec sleep 600"]
'''


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("results") / "data"
    directory.mkdir()
    (directory / "agentjobs.toml").write_text(AGENTS.replace("TOKEN", TOKEN))
    running = Service(directory).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def api(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Api:
    service.connect(sample_repository(tmp_path_factory.mktemp("source") / "shop"), "acme/shop")
    client = service.client(service.key())
    client.wait_ready("acme/shop")
    return client


TOKEN = "ghp_" + "a1B2" * 9
GOOD = "echo Fine > $AGENTJOBS_REPORT; echo {} > $AGENTJOBS_RESULT"


def artifacts(api: Api, job_id: str) -> dict[str, str]:
    listed = api.http.get(f"/jobs/{job_id}/artifacts").json()["artifacts"]
    return {each["name"]: each["media_type"] for each in listed}


def test_the_artifacts_of_a_completed_job_can_be_downloaded(api: Api) -> None:
    job = api.finish("acme/shop", "artifacts")
    assert job["status"] == "completed", job
    assert artifacts(api, job["job_id"]) == {"shot.png": "image/png", "tests.txt": "text/plain"}
    assert api.http.get(f"/jobs/{job['job_id']}/artifacts/tests.txt").text == "12 tests\n"
    assert job["warnings"] == ["Artifacts left out: link (not a regular file, or not readable)."]


@pytest.mark.parametrize(
    ("agent", "code", "name"),
    [("crash", "agent_failed", "trace.txt"), ("slow", "timeout", "partial.txt")],
)
def test_a_job_that_fails_keeps_its_artifacts(api: Api, agent: str, code: str, name: str) -> None:
    job = api.finish("acme/shop", agent)
    assert job["error"]["code"] == code
    assert artifacts(api, job["job_id"]) == {name: "text/plain"}


def test_a_cancelled_job_keeps_its_artifacts(api: Api) -> None:
    job_id = api.create("acme/shop", "unhurried")
    wait_until(lambda: "written" in api.log(job_id), "the artifact to be written")
    assert api.http.post(f"/jobs/{job_id}/cancel").status_code == 202
    api.wait_status(job_id, "cancelled")
    assert artifacts(api, job_id) == {"partial.txt": "text/plain"}


def test_an_agent_that_reports_completes_without_a_pull_request(service: Service, api: Api) -> None:
    job = api.finish("acme/shop", "reviewer", config_override={"draft": True})
    assert (job["status"], job["pr_url"], job["error"]) == ("completed", None, None), job
    assert job["report_markdown"] == "# Review\n\n<b>All</b> is **well**.\n"
    assert job["report_json"] == {"risk": "low", "files": ["app.py"]}
    assert api.events(job["job_id"]) == ["job.queued", "job.started", "job.completed"]
    assert job["warnings"] == [
        "`draft` had no effect: reviewer writes a report and opens no pull request."
    ]
    assert "pushed" not in api.log(job["job_id"])
    assert artifacts(api, job["job_id"]) == {"notes.txt": "text/plain"}
    assert api.http.get(f"/jobs/{job['job_id']}/diff").status_code == 404
    assert "AGENTJOBS_RESULT" in api.http.get(f"/jobs/{job['job_id']}/prompt").json()["prompt"]
    agent = api.http.get("/agents/reviewer").json()
    assert (agent["result"], agent["result_schema"]["required"]) == ("report", ["risk"])
    repeated = api.http.post(f"/jobs/{job['job_id']}/follow-ups", json={"prompt": "More."})
    assert repeated.status_code == 409
    assert "completed with a report" in repeated.json()["error"]["message"]
    assert service.admin("pulls", "list").strip().count("#") == 0


def test_names_in_a_result_that_does_not_fit_are_escaped(api: Api) -> None:
    job = api.finish("acme/shop", "control-characters")
    assert job["error"]["code"] == "agent_failed"
    assert r"\x00\x1b[31m" in job["error"]["message"]


def test_secrets_in_a_report_are_redacted(api: Api) -> None:
    job = api.finish("acme/shop", "leaky")
    assert job["report_markdown"] == "The token is [redacted]\n"
    assert job["report_json"] == {"token": "[redacted]", "risk": "low"}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("true", "ended without a report"),
        ("echo > $AGENTJOBS_REPORT", "ended without a report"),
        ("ln -s /etc/passwd $AGENTJOBS_REPORT", "ended without a report"),
        ("base64 /dev/zero | head -c 262145 > $AGENTJOBS_REPORT", "ended without a report"),
        ("echo Fine > $AGENTJOBS_REPORT", "ended without its result"),
        (f"{GOOD}; mkfifo $AGENTJOBS_RESULT.x; mv $AGENTJOBS_RESULT.x $AGENTJOBS_RESULT", "result"),
        (f"{GOOD}; truncate -s 300K $AGENTJOBS_RESULT", "ended without its result"),
        (GOOD, "$: 'risk' is a required property"),
        (f"{GOOD}; echo nonsense > $AGENTJOBS_RESULT", "it is not JSON"),
        (f"{GOOD}; exit 3", "exit code 3"),
    ],
)
def test_an_agent_that_does_not_report_fails(api: Api, script: str, reason: str) -> None:
    job = api.finish("acme/shop", "report", config_override={"script": script})
    assert (job["status"], job["error"]["code"]) == ("failed", "agent_failed")
    assert reason in job["error"]["message"]
    assert job["report_markdown"] is None
    assert "job.completed" not in api.events(job["job_id"])
