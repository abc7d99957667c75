"""Importing and removing repositories that are made to be expensive or misleading."""

from pathlib import Path

import pytest

from agentjobs.local_git import repositories
from agentjobs.local_git.repositories import import_repository, remove_repository
from agentjobs_runtime.problems import Problem
from tests.support.git_commands import git_output, make_repository


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "git" / "repo_x.git"


def write_refs(source: Path, *lines: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    (source / ".git" / "packed-refs").write_text(f"# pack-refs with: sorted \n{text}")


async def test_a_hundred_thousand_refs_are_imported_as_a_single_file(
    source: Path, target: Path
) -> None:
    head = git_output("rev-parse", "HEAD", cwd=source)
    write_refs(source, *(f"{head} refs/tags/t{number:06}" for number in range(100_000)))
    imported = await import_repository(str(source), target)
    assert (imported.default_branch, imported.head_commit) == ("main", head)
    assert git_output("for-each-ref", cwd=target).count("\n") == 100_000
    assert [path for path in (target / "refs").rglob("*") if path.is_file()] == []
    assert "remote" not in (target / "config").read_text()


async def test_too_many_bytes_of_ref_names_are_refused(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "_MAX_REFS_BYTES", 10)
    with pytest.raises(Problem, match="delete those that are not needed"):
        await import_repository(str(source), target)
    assert list(target.parent.iterdir()) == []


async def test_refs_that_nobody_can_use_are_refused(source: Path, target: Path) -> None:
    head = git_output("rev-parse", "HEAD", cwd=source)
    write_refs(source, f"{head} refs/tags/{'n/' * 1_000}x")
    with pytest.raises(Problem, match="name that is too long"):
        await import_repository(str(source), target)
    tree = git_output("rev-parse", "HEAD^{tree}", cwd=source)
    write_refs(source, f"{tree} refs/heads/tree")
    with pytest.raises(Problem, match=r"The ref refs/heads/tree of .* branch without a commit"):
        await import_repository(str(source), target)
    assert list(target.parent.iterdir()) == []


async def test_a_repository_with_sha256_is_refused(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "sha256"
    git_output("init", "-q", "--object-format=sha256", "-b", "main", str(source), cwd=tmp_path)
    git_output("commit", "-q", "--allow-empty", "-m", "First", cwd=source)
    with pytest.raises(Problem, match="uses SHA-256"):
        await import_repository(str(source), target)
    assert list(target.parent.iterdir()) == []


def test_a_repository_with_a_branch_of_a_thousand_directories_is_removed(target: Path) -> None:
    target.mkdir(parents=True)
    git_output("init", "-q", cwd=target)
    git_output("commit", "-q", "--allow-empty", "-m", "First", cwd=target)
    git_output("branch", "/".join(["n"] * 1_200), cwd=target)
    remove_repository(target.parent, "repo_x")
    assert list(target.parent.iterdir()) == []
