"""Environments of repositories, over HTTP on a running service: setup once, then agents offline."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import IDENTITY, environment_service
from tests.support.service import Api, Service, git, sample_repository, wait_until

AGENTS = '''
[[agents]]
id = "builder"
name = "Builder"
command = ["sh", "-c", """
set -e
make test
echo changed >> edited.txt
rm -r deps/old
echo new > deps/new
echo changed > ~/cached/file
"""]

[[agents]]
id = "looker"
name = "Looker"
command = ["sh", "-c", """
echo "deps: $(ls deps)" "home: $(cat ~/cached/file)" "app: $(cat app.py)"
! test -e untracked.txt && echo changed >> edited.txt
"""]
'''
CONFIGURATION = '''
verify = "make test"
[environment]
setup = """
set -e
mkdir -p deps/old ~/cached
echo one > deps/lib
echo two > ~/cached/file
echo untracked > untracked.txt
echo changed > app.py
"""
[environment.variables]
GREETING = "hello"
'''
MAKEFILE = """\
test:
\ttest -e deps/lib && test -e $$HOME/cached/file && test $$GREETING = hello
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("environments") / "data"
    directory.mkdir()
    (directory / "agentjobs.toml").write_text(AGENTS)
    running = Service(directory).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def api(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Api:
    sources = tmp_path_factory.mktemp("sources")
    source = sample_repository(
        sources / "shop",
        {
            ".agentjobs.toml": CONFIGURATION,
            ".gitignore": "deps/\n",
            "Makefile": MAKEFILE,
            "app.py": "x = 1\n",
        },
    )
    service.connect(source, "acme/shop")
    api = service.client(service.key())
    api.wait_ready("acme/shop")
    return api


def changed_files(api: Api, job: dict[str, Any]) -> str:
    return api.http.get(job["pr_url"]).text


def test_setup_runs_once_and_no_job_changes_what_it_left(service: Service, api: Api) -> None:
    job = api.finish("acme/shop", "builder")
    assert job["status"] == "completed", (job, api.log(job["job_id"]), service.log())
    assert job["verification"]["passed"], job
    later = api.finish("acme/shop", "looker")
    log = api.log(later["job_id"])
    assert later["status"] == "completed", (later, log)
    assert later["environment"]["build_id"] == job["environment"]["build_id"]
    assert "deps: lib\nold home: two app: x = 1" in log
    for each in (job, later):
        page = changed_files(api, each)
        assert "edited.txt" in page
        assert "deps/" not in page


SERVICES = """
[[environment.services]]
name = "steady"
command = "exec python3 -m http.server --bind 127.0.0.1 7000"
[[environment.services]]
name = "broken"
command = "echo no such database >&2; exit 4"
"""


def test_a_service_that_ends_fails_the_job_with_its_last_lines(
    service: Service, api: Api, tmp_path: Path
) -> None:
    files = {".agentjobs.toml": SERVICES, "app.py": "x = 1\n"}
    service.connect(sample_repository(tmp_path / "services", files), "acme/services")
    api.wait_ready("acme/services")
    job = api.finish("acme/services", "looker")
    assert job["error"]["code"] == "environment_failed"
    assert job["error"]["message"] == (
        "The service broken ended with exit code 4. Its last lines:\nno such database"
    )
    assert "\nservice:broken | no such database\n" in api.log(job["job_id"])


def test_a_push_that_changes_a_lock_file_builds_the_environment_again(
    tmp_path: Path,
) -> None:
    with environment_service(tmp_path, AGENTS) as environments:
        files = {".agentjobs.toml": CONFIGURATION, "Makefile": MAKEFILE, "app.py": "x = 1\n"}
        files |= {".gitignore": "deps/\n", "uv.lock": "one\n"}
        environments.connect("acme/shop", files)
        job, _ = environments.complete("acme/shop", "builder")
        service = environments.service
        key = service.key("--git-write")
        url = f"{service.root_url}/git/default/acme/shop.git".replace("://", f"://key:{key}@")
        clone = tmp_path / "clone"
        git(tmp_path, "clone", "-q", url, str(clone))
        (clone / "uv.lock").write_text("two\n")
        git(clone, *IDENTITY, "commit", "-qam", "Upgrade")
        git(clone, "push", "-q", "origin", "HEAD")
        wait_until(
            lambda: [build["state"] for build in environments.builds("acme/shop")] == ["ready"] * 2,
            "the second build",
        )
        [first, second] = environments.builds("acme/shop")
        assert (first["id"], second["reason"]) == (job["environment"]["build_id"], "push")
        later, _ = environments.complete("acme/shop", "builder")
        assert later["environment"]["build_id"] == second["id"]


def test_long_builds_of_one_organization_do_not_delay_another(
    service: Service, api: Api, tmp_path: Path
) -> None:
    service.admin("orgs", "create", "slow")
    slow = service.client(service.key("--org", "slow"))
    waiting = []
    for name in ("slow/one", "slow/two", "slow/three"):
        files = {".agentjobs.toml": f'[environment]\nsetup = "exec sleep 600 # {name}"\n'}
        service.connect(sample_repository(tmp_path / name, files), name, "slow")
        slow.wait_ready(name)
        waiting.append(slow.create(name, "looker"))
    for job_id in waiting:
        wait_until(
            lambda: slow.job(job_id)["queue_reason"] == "environment_building",  # noqa: B023 - called at once
            "its environment to be built",
        )
    quick = {".agentjobs.toml": '[environment]\nsetup = "echo two > ~/file"\n', "app.py": "x\n"}
    service.connect(sample_repository(tmp_path / "quick", quick), "acme/quick")
    api.wait_ready("acme/quick")
    job = api.finish("acme/quick", "looker")
    assert job["environment"]["build_id"], (job, service.log())
    assert {slow.job(job_id)["status"] for job_id in waiting} == {"queued"}
