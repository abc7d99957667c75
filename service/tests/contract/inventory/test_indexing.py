"""Claiming, indexing and storing, on both stores."""

from pathlib import Path

import msgspec
import pytest

from agentjobs.inventory.indexing import (
    DueRepo,
    IndexedCommit,
    IndexFailure,
    claim_due,
    index_repository,
    make_outdated_due,
    read_dependencies,
    store_failure,
)
from agentjobs.inventory.stored_graph import load_graph, load_summary
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_dependencies.languages import LanguageLines
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.settings import load
from agentjobs_runtime.settings.model import Settings
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.indexing import IndexSetup, index_setup
from tests.support.repo_rows import SELECT, update_repos
from tests.support.workspace import run_git

REPO = "repo_x"
FILES: dict[str | bytes, bytes] = {
    ".agentjobs.toml": b'auto_trigger_on_cve_severity = "high"\n',
    "requirements.txt": b"requests==2.30.0\nflask>=2\n",
    "shop.py": b"import requests\n",
}


@pytest.fixture
def setup(tmp_path: Path) -> IndexSetup:
    return index_setup(tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load({"AGENTJOBS_DATA_DIR": str(tmp_path)})


@pytest.fixture
async def db(database: Database, setup: IndexSetup) -> Database:
    await ensure_default(database, Plans(DEFAULT_PLANS))
    owner = await find_organization(database, "default")
    head = setup.commit(FILES)

    async def insert(tx: Transaction) -> None:
        await tx.execute(
            "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
            " head_commit, created_at)"
            " VALUES (:id, :owner, 'acme/shop', 'local', '', 'main', :head, 1)",
            id=REPO,
            owner=owner.id,
            head=head,
        )
        await update_repos(tx, "index_due_at = 1")

    await database.transact(insert)
    return database


async def row_of(db: Database) -> Row:
    row = await db.fetch_one(f"{SELECT} WHERE r.id = :id", id=REPO)
    assert row is not None
    return row


async def change(db: Database, assignments: str) -> None:
    async def execute(tx: Transaction) -> None:
        await update_repos(tx, assignments)

    await db.transact(execute)


async def claim(db: Database) -> DueRepo:
    repo = await claim_due(db)
    assert repo is not None
    return repo


async def index(db: Database, setup: IndexSetup, settings: Settings) -> IndexedCommit:
    """Index as the loop does after a push."""
    await change(db, "index_due_at = 1")
    return await index_repository(db, await claim(db), setup.git_dir, settings)


async def dependencies(db: Database) -> list[tuple[object, ...]]:
    rows = await db.fetch_all("SELECT * FROM dependencies ORDER BY position")
    return [(row["name"], row["version"], row["direct"], row["purl"]) for row in rows]


async def test_an_index_is_stored_completely(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    with db.changes.listen("scan") as scan:
        done = await index(db, setup, settings)
        assert await scan.wait(30)
    row = await row_of(db)
    assert done.file_count == 3
    assert (row["index_status"], row["line_count"], row["indexed_commit"]) == (
        "ready",
        4,
        done.commit,
    )
    assert row["index_due_at"] is None
    assert row["scan_due_at"] is not None
    assert row["configured_trigger"] == "high"
    assert await dependencies(db) == [
        ("flask", None, True, "pkg:pypi/flask"),
        ("requests", "2.30.0", True, "pkg:pypi/requests@2.30.0"),
    ]
    graph = await load_graph(db, REPO)
    assert graph is not None
    assert graph.files == ("shop.py",)
    summary = await load_summary(db, REPO)
    assert summary.languages == (LanguageLines("Python", 1, 1),)
    assert summary.warnings == ()


async def test_a_commit_indexed_by_the_same_analyzers_is_not_read_again(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    await index(db, setup, settings)
    await change(db, "scan_due_at = NULL, index_failures = 3, index_error = 'x'")
    result = await index(db, setup, settings)
    row = await row_of(db)
    assert result.file_count is None
    assert (row["scan_due_at"], row["index_failures"], row["index_error"]) == (None, 0, None)


async def test_repositories_indexed_by_other_analyzers_become_due(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    await index(db, setup, settings)
    await make_outdated_due(db)
    assert await claim_due(db) is None
    await change(db, "index_fingerprint = 'old', dependencies_digest = 'old'")
    await make_outdated_due(db)
    assert (await index_repository(db, await claim(db), setup.git_dir, settings)).file_count == 3
    assert len(await dependencies(db)) == 2


async def test_unchanged_dependencies_are_not_written_again(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    await index(db, setup, settings)

    async def mark(tx: Transaction) -> None:
        await tx.execute("UPDATE dependencies SET purl = 'mark'")

    await db.transact(mark)
    setup.commit({"shop.py": b"import os, requests\n", "new.md": b"x\n"})
    await index(db, setup, settings)
    assert {purl for *_, purl in await dependencies(db)} == {"mark"}
    setup.commit({"requirements.txt": b"requests==2.31.0\n"})
    await index(db, setup, settings)
    assert await dependencies(db) == [
        ("requests", "2.31.0", True, "pkg:pypi/requests@2.31.0"),
    ]


async def test_a_head_that_moves_during_the_index_is_indexed_next(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    repo = await claim(db)
    await change(db, "head_commit = 'moved'")
    await index_repository(db, repo, setup.git_dir, settings)
    row = await row_of(db)
    assert (row["index_status"], row["head_commit"]) == ("ready", "moved")
    assert await claim_due(db) is not None


async def test_a_repository_made_due_during_the_index_is_not_indexed_beside_it(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    repo = await claim(db)
    await change(db, "index_due_at = 1, head_commit = 'moved'")
    assert await claim_due(db) is None
    await index_repository(db, repo, setup.git_dir, settings)
    assert await claim_due(db) is not None


async def test_a_process_whose_claim_ended_stores_no_index(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    # A later claim has another lease, unless a test makes both in one millisecond.
    stalled = msgspec.structs.replace(await claim(db), lease_until=1)
    await change(db, "index_due_at = 1, index_lease_until = 1")
    other = await claim(db)
    with pytest.raises(ClaimLost):
        await index_repository(db, stalled, setup.git_dir, settings)
    assert (await row_of(db))["indexed_commit"] is None
    await index_repository(db, other, setup.git_dir, settings)
    assert (await row_of(db))["index_status"] == "ready"


async def test_a_repository_disconnected_during_the_index_gets_no_index(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    repo = await claim(db)
    await change(db, "disconnected_at = 1")
    await index_repository(db, repo, setup.git_dir, settings)
    assert (await row_of(db))["indexed_commit"] is None
    assert await dependencies(db) == []
    assert await load_graph(db, REPO) is None


async def test_a_failure_is_stored_and_retried_and_a_ready_repository_stays_ready(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    await index(db, setup, settings)
    setup.commit({"more": b"1\n"})
    setup.remove_object("HEAD^{tree}")
    await change(db, "index_due_at = 1")
    repo = await claim(db)
    with pytest.raises(IndexFailure) as failure:
        await index_repository(db, repo, setup.git_dir, settings)
    await store_failure(db, repo, str(failure.value))
    row = await row_of(db)
    assert (row["index_status"], row["index_failures"], row["line_count"]) == ("ready", 1, 4)
    assert "could not be read" in row["index_error"]
    assert await claim_due(db) is None


async def test_a_bad_configuration_is_a_warning_and_sets_no_threshold(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    await index(db, setup, settings)
    setup.commit({".agentjobs.toml": b"[fixes]\ngroup = 'directory'\n"})
    await index(db, setup, settings)
    assert (await row_of(db))["configured_grouping"] == "directory"
    setup.commit({".agentjobs.toml": b"auto_trigger_on_cve_severity = 'loud'\n"})
    await index(db, setup, settings)
    (warning,) = (await load_summary(db, REPO)).warnings
    assert (await row_of(db))["configured_trigger"] is None
    assert (await row_of(db))["configured_grouping"] is None
    assert warning.path == ".agentjobs.toml"
    assert "must be one of low" in warning.reason


async def test_a_deleted_branch_is_a_failure(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    run_git(setup.repository, "branch", "-m", "main", "other")
    with pytest.raises(IndexFailure, match="branch 'main' no longer exists"):
        await index_repository(db, await claim(db), setup.git_dir, settings)


async def test_the_dependencies_of_any_commit_can_be_read(
    setup: IndexSetup, settings: Settings
) -> None:
    first = setup.commit({"requirements.txt": b"a==1\n", "b.py": b"import a\n"})
    setup.commit({"requirements.txt": b"a==2\n", "sub/package.json": b"no JSON"})
    for commit, version, broken in ((first, "1", []), ("HEAD", "2", ["sub/package.json"])):
        result = await read_dependencies(setup.git_dir, commit, settings)
        assert [(row.name, row.version) for row in result.dependencies] == [("a", version)]
        assert [warning.path for warning in result.warnings] == broken
        assert result.installed_together == ()


async def test_files_that_a_commit_installs_together_are_read(
    setup: IndexSetup, settings: Settings
) -> None:
    together = ("requirements/main.txt", "requirements/tests.txt")
    dockerfile = f"RUN pip install -r {together[0]} -r {together[1]}\n"
    commit = setup.commit(
        {**dict.fromkeys(together, b"a==1\n"), "ci/Dockerfile": dockerfile.encode()}
    )
    result = await read_dependencies(setup.git_dir, commit, settings)
    assert result.installed_together == (together,)


async def test_warnings_and_languages_are_stored_as_documented(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    setup.commit({"go.mod": b"\xff\xff"})
    await index(db, setup, settings)
    row = await row_of(db)
    assert msgspec.json.decode(row["languages"]) == [["Python", 1, 1]]
    (warning,) = msgspec.json.decode(row["index_warnings"])
    assert set(warning) == {"path", "reason"}


async def test_many_dependencies_are_stored_in_batches_and_replace_all_earlier_ones(
    db: Database, setup: IndexSetup, settings: Settings
) -> None:
    for number in (4_500, 2_100, 3):
        setup.commit({"requirements.txt": b"".join(b"p%d==1.%d\n" % (n, n) for n in range(number))})
        await index(db, setup, settings)
        rows = await db.fetch_all(
            "SELECT position, name, purl FROM dependencies WHERE repo_id = :id ORDER BY position",
            id=REPO,
        )
        assert [row["position"] for row in rows] == list(range(number))
        assert {row["name"] for row in rows} == {f"p{n}" for n in range(number)}
        assert all(row["purl"].startswith(f"pkg:pypi/{row['name']}@") for row in rows)
        assert (await row_of(db))["dependencies_digest"] is not None
