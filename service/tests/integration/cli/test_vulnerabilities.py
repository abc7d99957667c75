"""`agentjobs vulnerabilities` as an operator types it."""

import asyncio
import shutil

import pytest

from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.queries import find_repo
from agentjobs.store.opening import open_database
from tests.support.cli_process import make_repository
from tests.support.dependencies import fault, package, store_findings
from tests.support.in_process_cli import InProcessCommandLine

REQUESTS = package("PyPI", "requests", "2.30.0", manifest="requirements.txt")


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    command = InProcessCommandLine(capsys, tmp_path / "data")
    source = make_repository(tmp_path / "shop", {"a.py": "import b\n"})
    assert command("repos", "connect", str(source), "--name", "acme/shop").exit_code == 0
    asyncio.run(store(f"sqlite:///{command.data_dir / 'agentjobs.db'}"))
    return command


async def store(url):
    db = await open_database(url, migrate=False)
    owner = await find_organization(db, "default")
    repo = await find_repo(db, owner.id, "acme/shop")
    await store_findings(db, owner.id, repo.id, fault(REQUESTS, "GHSA-1"))
    await db.close()


def test_vulnerabilities_are_listed_dismissed_snoozed_and_reopened(agentjobs):
    table = agentjobs("vulnerabilities", "list", "--repo", "acme/shop")
    assert (table.exit_code, "GHSA-1" in table.out) == (0, True)
    (each,) = agentjobs("vulnerabilities", "list", "--json").document["vulnerabilities"]
    assert (each["package"], each["state"]) == ("requests", "open")
    dismissed = agentjobs(
        *("vulnerabilities", "dismiss", each["id"], "--reason", "false_positive", "--json")
    ).document
    assert (dismissed["state"], dismissed["reason"]) == ("dismissed", "false_positive")
    assert agentjobs("vulnerabilities", "list", "--json").document == {"vulnerabilities": []}
    listed = agentjobs("vulnerabilities", "list", "--dismissed", "--json").document
    assert [other["id"] for other in listed["vulnerabilities"]] == [each["id"]]
    snoozed = agentjobs("vulnerabilities", "snooze", each["id"], "--days", "7")
    assert "GHSA-1 of requests in acme/shop is snoozed until 20" in snoozed.err
    reopened = agentjobs("vulnerabilities", "reopen", each["id"])
    assert "GHSA-1 of requests in acme/shop is open." in reopened.err


def test_an_unknown_vulnerability_is_refused(agentjobs):
    refused = agentjobs("vulnerabilities", "reopen", "fnd_1")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "no such vulnerability" in refused.err
