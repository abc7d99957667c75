"""Counting the lines of a real repository."""

import os
from pathlib import Path

import pytest

from agentjobs.git.process import GitError
from agentjobs.repos.index.count import IndexResult, count_repository
from tests.workspace_house import run_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    run_git(path, "init", "-q", "-b", "main")
    return path


def commit(repository: Path) -> str:
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "x", "--allow-empty")
    return run_git(repository, "rev-parse", "HEAD")


async def counted(repository: Path) -> IndexResult:
    return await count_repository(repository / ".git", commit(repository), lambda *_: None)


async def test_lines_are_counted_per_path_and_binary_links_and_submodules_are_left_out(
    repository: Path,
) -> None:
    (repository / "a.py").write_bytes(b"1\n2\n3\n")
    (repository / "same.py").write_bytes(b"1\n2\n3\n")
    (repository / "unterminated").write_bytes(b"1\n2")
    (repository / "empty").write_bytes(b"")
    (repository / "image.png").write_bytes(b"\x89PNG\0\n\n\n")
    (repository / "link").symlink_to("a.py")
    (repository / "run").write_bytes(b"#!/bin/sh\n")
    (repository / "run").chmod(0o755)
    run_git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    (repository / "module").mkdir()
    result = await counted(repository)
    assert (result.line_count, result.file_count) == (9, 6)
    assert result.commit == run_git(repository, "rev-parse", "HEAD")


async def test_names_of_any_bytes_are_counted(repository: Path) -> None:
    for name in (b"new\nline", b"tab\t", b"\xff\xfe", b'"quoted"', b" "):
        Path(os.fsdecode(os.path.join(os.fsencode(repository), name))).write_bytes(b"x\n")  # noqa: PTH118
    assert (await counted(repository)).line_count == 5


async def test_attributes_of_the_repository_change_nothing(repository: Path) -> None:
    (repository / ".gitattributes").write_bytes(b"* export-ignore filter=lfs -diff\n")
    (repository / "a").write_bytes(b"1\n")
    assert (await counted(repository)).line_count == 2


async def test_a_commit_without_files_has_no_lines(repository: Path) -> None:
    result = await counted(repository)
    assert (result.line_count, result.file_count) == (0, 0)


async def test_a_blob_larger_than_any_buffer_is_counted_in_pieces(repository: Path) -> None:
    (repository / "large").write_bytes(b"0123456789\n" * 500_000)
    (repository / "next").write_bytes(b"1\n")
    assert (await counted(repository)).line_count == 500_001


async def test_progress_goes_from_nothing_to_all(repository: Path) -> None:
    for number in range(1_200):
        (repository / f"f{number}").write_bytes(b"x\n")
    seen: list[tuple[int, int]] = []
    head = commit(repository)
    result = await count_repository(repository / ".git", head, lambda *at: seen.append(at))
    assert result.line_count == 1_200
    assert seen == [(0, 1_200), (500, 1_200), (1_000, 1_200), (1_200, 1_200)]


async def test_a_commit_that_is_not_there_is_an_error(repository: Path) -> None:
    with pytest.raises(GitError):
        await count_repository(repository / ".git", "1" * 40, lambda *_: None)


async def test_a_missing_blob_is_an_error_and_not_a_wrong_count(repository: Path) -> None:
    (repository / "a").write_bytes(b"1\n")
    head = commit(repository)
    blob = run_git(repository, "rev-parse", "HEAD:a")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitError, match="not a blob"):
        await count_repository(repository / ".git", head, lambda *_: None)
