"""Known vulnerabilities start jobs that fix them, with the real tools and registries."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import vulnerable_projects as projects
from tests.support.service import Api, Service, git, sample_repository, wait_until

# Each project's factory, manifest, vulnerable package and fixed version. The integration tests of
# the fixer run other tools, and `tests/fixes` has other kinds of files and fixes.
PROJECTS: dict[str, tuple[Callable[[Path], None], str, str, str]] = {
    "plain": (projects.plain_requirements, "requirements.txt", "requests", "2.31.0"),
    "npm": (projects.npm_project, "package-lock.json", "lodash", "4.17.21"),
    "yarn": (projects.yarn_project, "yarn.lock", "lodash", "4.17.21"),
    "go": (projects.go_module, "go.mod", "golang.org/x/text", "0.3.8"),
    "maven": (projects.maven_project, "pom.xml", "org.springframework:spring-beans", "5.3.18"),
}
SCANNED = "dependencies scanned"
# Agents run at a low priority: beside busy processes they take many times as long.
pytestmark = pytest.mark.timeout(1_500)
WITHOUT_A_FIX = "module shop\n\nrequire github.com/dgrijalva/jwt-go v3.2.0+incompatible\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vulnerable") / "shop"
    path = sample_repository(
        root,
        {
            ".agentjobs.toml": 'auto_trigger_on_cve_severity = "low"\n',
            "unfixable/go.mod": WITHOUT_A_FIX,
        },
    )
    for name, (make, *_) in PROJECTS.items():
        make(path / name)
    git(path, "add", "-A")
    git(path, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "Projects")
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("vulnerabilities") / "data"
    running = Service(directory, projects.service_environment()).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def api(service: Service, source: Path) -> Api:
    service.connect(source, "acme/shop")
    api = service.client(service.key())
    api.wait_ready("acme/shop")
    return api


@pytest.fixture(scope="module")
def jobs(api: Api) -> dict[str, dict[str, Any]]:
    """The automatic jobs, once all have finished, by project; a job may have several."""

    def finished_jobs() -> dict[str, dict[str, Any]] | None:
        finished = api.http.get("/jobs?limit=100").json()["jobs"]
        by_project = {
            fix["manifest"].partition("/")[0]: job
            for job in finished
            for fix in job["cause"]["fixes"]
        }
        is_finished = all(job["status"] in ("completed", "failed") for job in finished)
        return by_project if set(PROJECTS) <= set(by_project) and is_finished else None

    finished: dict[str, dict[str, Any]] = wait_until(finished_jobs, "a job for each project", 1_200)
    return finished


@pytest.mark.parametrize("name", PROJECTS)
def test_a_vulnerable_package_is_fixed_by_an_automatic_pull_request(
    service: Service, api: Api, jobs: dict[str, dict[str, Any]], name: str
) -> None:
    _, manifest, package, version = PROJECTS[name]
    job = jobs[name]
    assert job["status"] == "completed", f"{job['error']} {api.log(job['job_id'])}"
    cause = job["cause"]
    fixes = [fix for fix in cause["fixes"] if fix["manifest"] == f"{name}/{manifest}"]
    assert (package, version) in {(fix["package"], fix["fix_version"]) for fix in fixes}
    pull = json.loads(service.admin("pulls", "show", "acme/shop", str(job["pr_number"]), "--json"))
    for advisory in cause["advisories"]:
        assert advisory["id"] in pull["body"]
        assert advisory["severity"] in pull["body"].lower()
    assert f"Why {version}" in pull["body"]
    assert "### What changed" in pull["body"]
    assert "### How to undo it" in pull["body"]
    for fix in cause["fixes"]:
        assert f"`{fix['manifest']}`: `{package}`" in pull["body"]
    assert api.events(job["job_id"])[-2:] == ["job.completed", "pr.review_requested"]


def test_a_vulnerability_without_a_fix_is_shown_and_starts_no_job(
    api: Api, jobs: dict[str, dict[str, Any]]
) -> None:
    assert set(jobs) == set(PROJECTS)
    # One job for all projects that have the package.
    assert jobs["npm"]["job_id"] == jobs["yarn"]["job_id"]
    repo_id = api.wait_ready("acme/shop")["id"]
    response = api.http.get(f"/repos/{repo_id}/dependencies?vulnerable=true&limit=1000").json()
    (unfixable,) = [
        entry
        for entry in response["dependencies"]
        if entry["name"] == "github.com/dgrijalva/jwt-go"
    ]
    assert unfixable["advisories"]
    assert {entry["fix_version"] for entry in unfixable["advisories"]} == {None}


def test_a_restart_and_another_scan_start_no_further_job(
    service: Service, api: Api, jobs: dict[str, dict[str, Any]]
) -> None:
    service.admin("pulls", "close", "acme/shop", str(jobs["plain"]["pr_number"]))
    before = job_ids(api)
    service.kill()
    scans = service.log().count(SCANNED)
    service.start()
    restarted = service.client(service.key())
    wait_until(lambda: service.log().count(SCANNED) > scans, "the scan of a start")
    service.admin("orgs", "auto-trigger", "default", "low")
    wait_until(lambda: service.log().count(SCANNED) > scans + 1, "the scan of a change")
    assert job_ids(restarted) == before


def job_ids(api: Api) -> set[str]:
    return {job["job_id"] for job in api.http.get("/jobs?limit=100").json()["jobs"]}


LYING_FIXER = """
[[agents]]
id = "cve-fixer"
name = "Claims success"
command = ["sh", "-c", "sed -i s/5.3/5.3.1/ requirements.txt; echo All fixed > $AGENTJOBS_REPORT"]
"""


def test_a_change_that_stays_vulnerable_opens_no_pull_request(
    tmp_path: Path,
) -> None:
    """The first advisory is fixed in 5.3.1, but the second still affects it."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "agentjobs.toml").write_text(LYING_FIXER)
    no_registry = {"AGENTJOBS_REGISTRY_PYPI_URL": "http://192.0.2.1/simple"}
    service = Service(directory, {**projects.service_environment(), **no_registry}).start()
    try:
        files = {"requirements.txt": "pyyaml==5.3\n", "b/requirements.txt": "six==1.16.0\n"}
        service.connect(sample_repository(tmp_path / "source", files), "acme/shop")
        api = service.client(service.key())
        api.wait_ready("acme/shop")
        wait_until(lambda: "pyyaml" in service.admin("advisories", "search", "pyyaml"), "pyyaml")
        job = api.finish("acme/shop", "cve-fixer")
        assert (job["status"], job["error"]["code"]) == ("failed", "still_vulnerable")
        assert "pyyaml 5.3.1 in requirements.txt is still vulnerable" in job["error"]["message"]
        assert job["pr_url"] is None
        assert "is upgraded to 5.4" in api.log(job["job_id"])
        assert "registry is unreachable" in api.log(job["job_id"])
        override = {"auto_trigger_on_cve_severity": "none"}
        idle = api.finish("acme/shop", "cve-fixer", config_override=override)
        assert idle["error"]["code"] == "no_changes"
        assert "there is nothing to fix" in idle["error"]["message"]
    finally:
        assert service.stop() == 0
