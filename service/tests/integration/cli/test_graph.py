"""`agentjobs repos graph` as an operator types it, on a repository with a stored index."""

import asyncio
import json
import shutil

import pytest

from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.queries import find_repo
from agentjobs.store.opening import open_database
from agentjobs_dependencies.imports.model import ModuleGraph
from tests.support.cli_process import make_repository
from tests.support.dependencies import COMMIT, fault, package, store_findings, store_index
from tests.support.in_process_cli import InProcessCommandLine

REQUESTS = package("PyPI", "requests", "2.30.0", manifest="requirements.txt")
GRAPH = ModuleGraph(("a.py", 'b".py'), ((0, 1),), ("requests",), ((1, 0),))


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    command = InProcessCommandLine(capsys, tmp_path / "data")
    source = make_repository(tmp_path / "shop", {"a.py": "import b\n"})
    assert command("repos", "connect", str(source), "--name", "acme/shop").exit_code == 0
    return command


@pytest.fixture
def indexed(agentjobs):
    asyncio.run(store(f"sqlite:///{agentjobs.data_dir / 'agentjobs.db'}"))
    return agentjobs


async def store(url):
    db = await open_database(url, migrate=False)
    owner = await find_organization(db, "default")
    repo = await find_repo(db, owner.id, "acme/shop")
    await store_index(db, repo.id, [REQUESTS], GRAPH)
    await store_findings(db, owner.id, repo.id, fault(REQUESTS, "GHSA-1"))
    await db.close()


def test_the_graph_is_written_in_each_format(indexed, tmp_path):
    everything = indexed("repos", "graph", "acme/shop").document
    assert (everything["repo"], everything["commit"]) == ("acme/shop", COMMIT)
    assert everything["modules"]["files"] == ["a.py", 'b".py']
    (dependency,) = everything["dependencies"]
    assert dependency["purl"] == "pkg:pypi/requests@2.30.0"
    assert dependency["advisories"][0]["id"] == "GHSA-1"

    dot = indexed("repos", "graph", "acme/shop", "--format", "dot")
    assert (dot.exit_code, dot.err) == (0, "")
    assert 'm1 [label="b\\".py"];' in dot.out

    place = tmp_path / "sbom.json"
    written = indexed(
        "repos", "graph", "acme/shop", "--format", "cyclonedx", "--output", str(place)
    )
    assert (written.exit_code, written.out) == (0, "")
    assert COMMIT in written.err
    sbom = json.loads(place.read_text())
    assert sbom["specVersion"] == "1.6"
    assert [vulnerability["id"] for vulnerability in sbom["vulnerabilities"]] == ["GHSA-1"]


def test_what_cannot_be_shown_is_said_in_a_line(agentjobs, tmp_path):
    waiting = agentjobs("repos", "graph", "acme/shop")
    assert (waiting.exit_code, waiting.out) == (2, "")
    assert "still being indexed" in waiting.err
    assert "not connected" in agentjobs("repos", "graph", "acme/none").err
    assert "--format" in agentjobs("repos", "graph", "acme/shop", "--format", "xml").err
    asyncio.run(store(f"sqlite:///{agentjobs.data_dir / 'agentjobs.db'}"))
    nowhere = agentjobs("repos", "graph", "acme/shop", "--output", str(tmp_path / "no" / "file"))
    assert (nowhere.exit_code, "No such file" in nowhere.err) == (2, True)
