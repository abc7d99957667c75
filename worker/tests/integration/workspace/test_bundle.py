"""A commit leaves one machine as a bundle and arrives on another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.git.refs import has_commit
from agentjobs_runtime.mirrors.bundle import create_bundle, import_bundle
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.mirrors.mirror import Mirrors
from tests.support.workspace import REPO, WorkspaceHarness, run_git, workspace_harness

MIB = 1024**2


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        yield opened


async def committed(harness: WorkspaceHarness) -> tuple[str, str]:
    """The base and a commit that only this machine has."""
    async with harness.checkout() as checkout:
        (checkout.tree / "src/app.py").write_text("print('better')\n")
        commit = await harness.commit(checkout)
        assert commit is not None
        return checkout.commit, commit


async def test_a_commit_arrives_on_a_machine_that_has_only_its_base(
    harness: WorkspaceHarness, tmp_path: Path
) -> None:
    base, commit = await committed(harness)
    bundle = await create_bundle(harness.mirror, base, commit, MIB)
    assert bundle is not None
    assert run_git(harness.mirror, "for-each-ref", "refs/kept") == ""
    other = Mirrors(tmp_path / "other")
    await other.fetch_commit(REPO, harness.remote, branch="main", known_head=None)
    mirror = other.path(REPO)
    assert not await has_commit(mirror, commit)
    await import_bundle(mirror, bundle, commit)
    assert run_git(mirror, "fsck", "--strict", commit) == ""
    assert run_git(mirror, "show", f"{commit}:src/app.py") == "print('better')"
    assert list(mirror.glob("incoming-*")) == []


async def test_a_bundle_above_the_limit_is_not_read(harness: WorkspaceHarness) -> None:
    base, commit = await committed(harness)
    assert await create_bundle(harness.mirror, base, commit, 100) is None
    assert list(harness.mirror.glob("incoming-*")) == []


async def test_a_bundle_without_its_base_is_refused(
    harness: WorkspaceHarness, tmp_path: Path
) -> None:
    base, commit = await committed(harness)
    bundle = await create_bundle(harness.mirror, base, commit, MIB)
    assert bundle is not None
    empty = tmp_path / "empty.git"
    run_git(tmp_path, "init", "-q", "--bare", "--template=", str(empty))
    with pytest.raises(RepoUnavailable, match=r"cannot be read"):
        await import_bundle(empty, bundle, commit)
