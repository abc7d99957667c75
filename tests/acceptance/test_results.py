"""What jobs leave besides a pull request, over HTTP on a running service."""

from collections.abc import Iterator

import pytest

from tests.support.service import Api, Service, sample_repository

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
    (directory / "agentjobs.toml").write_text(AGENTS)
    running = Service(directory).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def api(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Api:
    service.connect(sample_repository(tmp_path_factory.mktemp("source") / "shop"), "acme/shop")
    client = service.client(service.key())
    client.wait_ready("acme/shop")
    return client


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
