"""Versions that published parents and BOMs of Maven set, on both stores."""

from pathlib import Path

import msgspec
import pytest

from agentjobs.inventory.dependencies import list_dependencies
from agentjobs.inventory.indexing import (
    claim_due,
    index_repository,
    pom_fetcher,
    read_dependencies,
)
from agentjobs.inventory.published_poms import PomFetcher
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.settings import load
from agentjobs_runtime.settings.model import Settings
from tests.support.findings import add_repo
from tests.support.indexing import IndexSetup, index_setup
from tests.support.repo_rows import update_repos

APP = b"""<project>
<parent><groupId>org.boot</groupId><artifactId>starter</artifactId><version>2.1</version></parent>
<artifactId>app</artifactId>
<properties><cloud.version>7</cloud.version></properties>
<dependencies>
<dependency><groupId>org.json</groupId><artifactId>core</artifactId></dependency>
<dependency><groupId>org.cloud</groupId><artifactId>client</artifactId></dependency>
</dependencies></project>"""


def pom(artifact: str, version: str, body: str, parent: str = "") -> bytes:
    return (
        f"<project>{parent}<groupId>org.boot</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{body}</project>"
    ).encode()


def managed(group: str, artifact: str, version: str, more: str = "") -> str:
    return (
        "<dependencyManagement><dependencies><dependency>"
        f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{more}"
        "</dependency></dependencies></dependencyManagement>"
    )


class Registry:
    """Published poms by coordinates; `requests` has what was asked for."""

    def __init__(self) -> None:
        parent = (
            "<parent><groupId>org.boot</groupId><artifactId>base</artifactId>"
            "<version>2.1</version></parent>"
        )
        bom = managed("org.boot", "cloud", "${cloud.version}", "<scope>import</scope>")
        self.poms = {
            "org.boot:starter:2.1": pom("starter", "2.1", bom, parent),
            "org.boot:base:2.1": pom("base", "2.1", managed("org.json", "core", "2.9.8")),
            "org.boot:cloud:7": pom("cloud", "7", managed("org.cloud", "client", "7.1")),
        }
        self.requests: list[str] = []

    async def fetch_pom(self, coordinate: str) -> bytes | None:
        self.requests.append(coordinate)
        return self.poms.get(coordinate)


@pytest.fixture
def setup(tmp_path: Path) -> IndexSetup:
    return index_setup(tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load({"AGENTJOBS_DATA_DIR": str(tmp_path)})


async def index(
    db: Database, repo_id: str, setup: IndexSetup, settings: Settings, poms: PomFetcher | None
) -> dict[str, tuple[str | None, str]]:
    """The version of each dependency, and what sets it."""

    async def make_due(tx: Transaction) -> None:
        await update_repos(tx, "index_due_at = 1")

    await db.transact(make_due)
    repo = await claim_due(db)
    assert repo is not None
    await index_repository(db, repo, setup.git_dir, settings, poms=poms)
    rows = await list_dependencies(db, repo_id)
    return {row.name: (row.version, row.managed_by) for row in rows}


RESOLVED = {
    "org.cloud:client": ("7.1", "org.boot:cloud:7"),
    "org.json:core": ("2.9.8", "org.boot:base:2.1"),
}


async def test_published_poms_are_fetched_once_and_set_versions(
    database: Database, setup: IndexSetup, settings: Settings
) -> None:
    repo_id = await add_repo(database, "acme/shop", [])
    setup.commit({"pom.xml": APP, "a.py": b"import b\n", "b.py": b""})
    registry = Registry()
    poms = pom_fetcher(settings, registry)
    assert await index(database, repo_id, setup, settings, poms) == RESOLVED
    graph = await database.fetch_one("SELECT data FROM repo_graphs")
    assert graph is not None
    assert sorted(registry.requests) == sorted(registry.poms)
    # A property of the repository decided about the version of the BOM.
    assert "org.boot:cloud:7" in registry.requests

    registry.requests.clear()
    setup.commit({"a.py": b"import b, c\n"})
    assert await index(database, repo_id, setup, settings, pom_fetcher(settings, registry)) == (
        RESOLVED
    )
    commit = setup.commit({"pom.xml": APP.replace(b"client", b"server")})
    reading = await read_dependencies(setup.git_dir, commit, settings, poms)
    assert {each.name: each.version for each in reading.dependencies} == {
        "org.cloud:server": None,
        "org.json:core": "2.9.8",
    }
    assert registry.requests == []


async def test_a_registry_that_does_not_respond_leaves_versions_unknown_until_it_does(
    database: Database, setup: IndexSetup, settings: Settings
) -> None:
    repo_id = await add_repo(database, "acme/shop", [])
    setup.commit({"pom.xml": APP})
    registry = Registry()
    published, registry.poms = registry.poms, {}
    poms = pom_fetcher(settings, registry)
    unknown = dict.fromkeys(RESOLVED, (None, ""))
    assert await index(database, repo_id, setup, settings, poms) == unknown
    row = await database.fetch_one("SELECT status, warnings FROM repo_index")
    assert row is not None
    (warning,) = msgspec.json.decode(row["warnings"])
    assert (row["status"], warning["path"]) == ("ready", "pom.xml")
    assert warning["reason"].startswith("org.boot:starter:2.1 is neither in the repository nor")
    # The same process does not ask again at once, not even after a push.
    setup.commit({"a.md": b"1\n"})
    assert await index(database, repo_id, setup, settings, poms) == unknown
    assert registry.requests == ["org.boot:starter:2.1"]

    registry.poms = published
    setup.commit({"a.md": b"2\n"})
    poms = pom_fetcher(settings, registry)
    assert await index(database, repo_id, setup, settings, poms) == RESOLVED


async def test_an_index_without_a_registry_resolves_nothing(
    database: Database, setup: IndexSetup, settings: Settings
) -> None:
    repo_id = await add_repo(database, "acme/shop", [])
    setup.commit({"pom.xml": APP})
    found = await index(database, repo_id, setup, settings, None)
    assert found == dict.fromkeys(RESOLVED, (None, ""))
