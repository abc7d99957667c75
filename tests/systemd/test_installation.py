"""The chapter on systemd in docs/installation.md, followed on a booted systemd."""

import json
import os
import re

import pytest

from tests.support.paths import PROJECT
from tests.support.postgres import free_port
from tests.support.service import wait_until
from tests.systemd.conftest import Machine

PORT = free_port()
REPOSITORY = """
mkdir /tmp/shop && cd /tmp/shop
git init --quiet --initial-branch=main
printf 'import os\\nx = 1 \\n' > app.py
git add -A
git -c user.name=t -c user.email=t@example.com commit --quiet -m First
chown -R agentjobs /tmp/shop
agentjobs-admin repos connect /tmp/shop --name acme/shop
"""


def commands(heading: str) -> list[str]:
    """The commands of the first block after a heading, without comments."""
    page = (PROJECT / "docs" / "installation.md").read_text()
    chapter = page.partition("\n## systemd\n")[2].partition(f"\n### {heading}\n")[2]
    block = chapter.partition("```sh\n")[2].partition("```")[0]
    return [line for line in re.sub(r"  +#.*", "", block).splitlines() if line]


def run_documented(machine: Machine, heading: str) -> None:
    for documented in commands(heading):
        if documented.startswith("apt-get"):
            continue
        command = documented.replace(
            "git clone URL_OF_AGENTJOBS", "git clone -q --no-local /srv/agentjobs"
        )
        command = command.replace(
            "editor /etc/agentjobs/environment",
            f"echo AGENTJOBS_PORT={PORT} >> /etc/agentjobs/environment",
        )
        machine.run(command, {**os.environ, "HOME": "/root"})


@pytest.fixture(scope="session")
def installed(machine: Machine) -> Machine:
    machine.run("git config --global --add safe.directory '*'")
    run_documented(machine, "First start")
    machine.run(REPOSITORY)
    return machine


def finish_job(machine: Machine) -> dict[str, object]:
    key = machine.run("agentjobs-admin keys create").strip()
    service = {"AGENTJOBS_URL": f"http://127.0.0.1:{PORT}", "AGENTJOBS_API_KEY": key}
    created = machine.run(
        "/opt/agentjobs/.venv/bin/agentjobs jobs create --repo acme/shop --agent lint-fixer"
        " --wait --json",
        service,
    )
    job: dict[str, object] = json.loads(created)
    return job


def wait_until_ready(machine: Machine) -> None:
    ready = f"curl -sf http://127.0.0.1:{PORT}/readyz"
    wait_until(lambda: machine.attempt(ready).returncode == 0, "the service to be ready", 60)
    indexed = "agentjobs-admin repos list --json"
    wait_until(
        lambda: json.loads(machine.run(indexed))["repos"][0]["index_status"] == "ready",
        "the repository to be indexed",
        60,
    )


def test_a_job_completes_under_the_unit_of_the_whole_service(installed: Machine) -> None:
    wait_until_ready(installed)
    assert finish_job(installed)["status"] == "completed"
    mode = installed.run("stat -c '%U %a' /var/lib/agentjobs /etc/agentjobs/environment")
    assert mode.split("\n")[:2] == ["agentjobs 700", "root 600"]


def test_a_killed_service_starts_again(installed: Machine) -> None:
    wait_until_ready(installed)
    installed.run("systemctl kill --kill-whom=main --signal=KILL agentjobs")
    restarts = "systemctl show --property=NRestarts --value agentjobs"
    wait_until(lambda: installed.run(restarts).strip() == "1", "a restart", 60)
    wait_until_ready(installed)
    assert finish_job(installed)["status"] == "completed"


def test_an_upgrade_keeps_everything(installed: Machine) -> None:
    run_documented(installed, "Upgrade")
    wait_until_ready(installed)
    assert finish_job(installed)["status"] == "completed"
    assert installed.run("ls /var/lib/agentjobs").count("backup-") == 1


def test_a_job_completes_under_the_units_of_api_and_worker(installed: Machine) -> None:
    installed.run("systemctl disable --now agentjobs")
    result = installed.run("systemctl show --property=Result --value agentjobs")
    assert result.strip() == "success"
    installed.run(
        "cp /opt/agentjobs/packaging/systemd/agentjobs-*.service /etc/systemd/system/\n"
        "systemctl daemon-reload\n"
        "systemctl enable --now agentjobs-serve agentjobs-worker"
    )
    wait_until_ready(installed)
    assert finish_job(installed)["status"] == "completed"
    for unit in ("agentjobs-serve", "agentjobs-worker"):
        installed.run(f"systemctl stop {unit}")
        result = installed.run(f"systemctl show --property=Result --value {unit}")
        assert result.strip() == "success"


def test_a_setting_that_is_refused_is_in_the_status(installed: Machine) -> None:
    installed.run("echo AGENTJOBS_PUBLIC_URL=nonsense >> /etc/agentjobs/environment")
    installed.run("systemctl start agentjobs-serve")
    status = "systemctl status --no-pager --full agentjobs-serve || true"
    wait_until(lambda: "must have the form https://HOST" in installed.run(status), "the reason", 60)
