"""Caches of repositories that have no row any more, on both databases."""

from pathlib import Path

from agentjobs.loops.deleted_repos_loop import drop_deleted_repos
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors
from tests.support.jobs import JobHarness


async def test_only_mirrors_of_deleted_repositories_are_dropped(
    harness: JobHarness, tmp_path: Path
) -> None:
    await harness.organization()
    (row,) = await harness.db.fetch_all("SELECT id FROM repos")
    for repo_id in (row["id"], "repo_gone"):
        (tmp_path / f"mirrors/{repo_id}.git/objects/pack").mkdir(parents=True)
    mirrors = Mirrors(tmp_path / "mirrors", recent_seconds=-1)
    workspaces = Workspaces(tmp_path / "workspaces", mirrors)
    await drop_deleted_repos(harness.db, workspaces)
    await workspaces.close()
    assert [path.name for path in (tmp_path / "mirrors").glob("*.git")] == [f"{row['id']}.git"]
