"""Caches of repositories that are disconnected or have no row any more, on both databases."""

from pathlib import Path

from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.loops.mirrors_loop import MirrorsLoop
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_worker.loops.deleted_repos_loop import drop_deleted_repos
from agentjobs_worker.workspace.checkout import Workspaces
from tests.support.jobs import JobHarness


async def test_only_mirrors_of_deleted_repositories_are_dropped(
    harness: JobHarness, tmp_path: Path
) -> None:
    await harness.organization()
    (row,) = await harness.db.fetch_all("SELECT id, full_name FROM repos")
    repo_id = row["id"]
    for each in (repo_id, "repo_gone"):
        (tmp_path / f"mirrors/{each}.git/objects/pack").mkdir(parents=True)
    mirrors = Mirrors(tmp_path / "mirrors", recent_seconds=-1)
    workspaces = Workspaces(tmp_path / "workspaces", mirrors)
    assert await drop_deleted_repos(harness.link(), workspaces) == {"repo_gone"}
    assert [path.name for path in (tmp_path / "mirrors").glob("*.git")] == [f"{repo_id}.git"]
    await disconnect_repository(harness.db, "acme", row["full_name"])
    assert await drop_deleted_repos(harness.link(), workspaces) == {repo_id}
    assert list((tmp_path / "mirrors").glob("*.git")) == []
    assert await drop_deleted_repos(harness.link(), workspaces) == set()
    await workspaces.close()


async def test_a_service_without_a_worker_drops_mirrors_of_deleted_repositories(
    harness: JobHarness, tmp_path: Path
) -> None:
    await harness.organization()
    [row] = await harness.db.fetch_all("SELECT id FROM repos")
    for repo_id in (row["id"], "repo_gone"):
        (tmp_path / f"{repo_id}.git/objects/pack").mkdir(parents=True)
    loop = MirrorsLoop(harness.db, Mirrors(tmp_path, recent_seconds=-1), 0)
    assert await loop.drop_deleted() == {"repo_gone"}
    assert [path.name for path in tmp_path.glob("*.git")] == [f"{row['id']}.git"]
    assert await loop.drop_deleted() == set()
