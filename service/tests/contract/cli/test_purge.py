"""Purging a repository on its own host, on both databases."""

from pathlib import Path

import pytest

from agentjobs.cli.repos import purge
from agentjobs.cli.repos.purge import purge_repository
from agentjobs.fleet.repositories_directory import MARKER
from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.local_git import repositories
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings
from tests.support.jobs import JobHarness, insert_repo
from tests.support.repo_rows import update_repos

NAME = "acme/shop"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / MARKER).write_text("this deployment\n")
    return Settings(data_dir=str(tmp_path))


async def files_of(harness: JobHarness, organization_id: str, tmp_path: Path) -> list[Path]:
    """Creates what a host may have of the organization's repositories."""
    rows = await harness.db.fetch_all(
        "SELECT id FROM repos WHERE organization_id = :id", id=organization_id
    )
    paths = [
        tmp_path / place
        for row in rows
        for place in (
            f"git/{row['id']}.git",
            f"mirrors/{row['id']}.git",
            f"workspaces/templates/{row['id']}",
            f"environments/snapshots/{row['id']}",
        )
    ]
    for path in paths:
        (path / "directory").mkdir(parents=True)
    return paths


async def test_a_purge_removes_the_files_of_one_organization_only(
    harness: JobHarness, settings: Settings, tmp_path: Path
) -> None:
    acme, other = await harness.organization("acme"), await harness.organization("other")
    await harness.db.transact(insert_repo, other.organization_id, NAME, "ready")
    doomed = await files_of(harness, acme.organization_id, tmp_path)
    kept = await files_of(harness, other.organization_id, tmp_path)
    purged = await purge_repository(harness.db, settings, "acme", NAME)
    assert sorted(purged.removed) == sorted(map(str, doomed))
    assert [path for path in kept if not path.exists()] == []
    entries = await list_entries(harness.db, acme.organization_id, AuditFilter(), limit=2)
    assert [each.action for each in entries] == ["repo.purged", "repo.disconnected"]


async def test_a_repository_that_is_disconnected_already_can_be_purged(
    harness: JobHarness, settings: Settings, tmp_path: Path
) -> None:
    acme = await harness.organization("acme")
    paths = await files_of(harness, acme.organization_id, tmp_path)
    await disconnect_repository(harness.db, "acme", NAME)
    assert paths[0].exists()
    purged = await purge_repository(harness.db, settings, "acme", NAME)
    assert len(purged.removed) == len(paths)
    with pytest.raises(Problem, match="never was"):
        await purge_repository(harness.db, settings, "acme", "acme/nothing")


async def test_a_repository_in_use_is_not_removed(
    harness: JobHarness, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = await harness.organization("acme")
    paths = await files_of(harness, acme.organization_id, tmp_path)
    monkeypatch.setattr(purge, "_STOP_SECONDS", 0.0)
    await harness.db.transact(_lease_sync)
    with pytest.raises(Problem, match="Run the command again"):
        await purge_repository(harness.db, settings, "acme", NAME)
    assert [path for path in paths if not path.exists()] == []


async def test_files_that_cannot_be_removed_are_named(
    harness: JobHarness, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = await harness.organization("acme")
    repository, *_ = await files_of(harness, acme.organization_id, tmp_path)
    # Root can remove everything.
    monkeypatch.setattr(repositories, "remove_repository", lambda *_: None)
    with pytest.raises(Problem, match="Run the command as the user") as raised:
        await purge_repository(harness.db, settings, "acme", NAME)
    assert str(repository) in raised.value.message


async def _lease_sync(tx: Transaction) -> None:
    until = await tx.clock_ms() + 60_000
    await update_repos(tx, "sync_lease_until = :until", until=until)
