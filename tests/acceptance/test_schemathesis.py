"""The OpenAPI document against the running service, by schemathesis with every check."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import Api, Service, sample_repository, wait_until

PROGRAM = str(Path(sys.executable).with_name("schemathesis"))
PHASES = "examples,coverage,fuzzing,stateful"
CASES_PER_OPERATION = 4
# A repository or an agent that does not exist has a valid form; only the service can refuse it.
# The longest a request may take is a long-poll of 60 s.
CONFIGURATION = """
request-timeout = 65
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "403", "404", "409", "422"]
"""


@pytest.fixture
def fuzzed(database_url: str, tmp_path: Path) -> Iterator[Service]:
    """A separate service without a rate limit."""
    environment = {
        "AGENTJOBS_DATABASE_URL": database_url,
        "AGENTJOBS_RATE_LIMIT_PER_SECOND": "0",
    }
    running = Service(tmp_path / "data", environment).start()
    yield running
    assert running.stop() == 0, running.log()


# PostgreSQL refuses more values; `tests/unit/web` sends any content to a service with SQLite.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_responses_match_the_openapi_document_and_are_no_server_errors(
    fuzzed: Service, tmp_path: Path
) -> None:
    api = fuzzed.client(fuzzed.key("--pulls"))
    # The repository of the document's examples.
    fuzzed.connect(sample_repository(tmp_path / "shop"), "acme/shop")
    api.wait_ready("acme/shop")

    done = schemathesis(fuzzed, str(api.http.headers["Authorization"]), tmp_path)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert logged_requests(fuzzed, min_status=500) == []
    # Real work was done: an example of the document became a job with a pull request.
    wait_until(lambda: pull_requests(api), "a completed job")
    api.http.close()


def pull_requests(api: Api) -> list[str]:
    jobs = api.http.get("/jobs", params={"status": "completed", "agent": "lint-fixer"})
    return [job["pr_url"] for job in jobs.json()["jobs"]]


def schemathesis(
    service: Service, authorization: str, directory: Path
) -> subprocess.CompletedProcess[str]:
    configuration = directory / "schemathesis.toml"
    configuration.write_text(CONFIGURATION)
    return subprocess.run(
        [
            *(PROGRAM, "--config-file", str(configuration)),
            *("run", f"{service.base_url}/openapi.json", "--no-color"),
            *("--header", f"Authorization: {authorization}"),
            *("--phases", PHASES, "--checks", "all", "--continue-on-failure"),
            *("--max-examples", str(CASES_PER_OPERATION), "--generation-deterministic"),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def logged_requests(service: Service, *, min_status: int) -> list[dict[str, object]]:
    """Requests that the service logged with this status or a higher one."""
    lines = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request"]
    assert requests
    return [line for line in requests if line["status"] >= min_status]
