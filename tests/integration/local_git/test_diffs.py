"""Diffs of real repositories: odd names, renames, and files too large to be read whole."""

import os
import threading
from pathlib import Path

import pytest

from agentjobs.local_git import diffs
from agentjobs.local_git.diffs import diff_between, file_diff_between
from agentjobs.local_git.patch import Entry
from tests.support.local_repository import git_output

MEBIBYTE = 1024 * 1024


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        git_output("init", "-q", cwd=path)
        self.base = self.commit({"kept.txt": "same\n" * 20, "readme": "a\n"})

    def commit(self, files: dict[str, str | bytes]) -> str:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (self.path / name).write_bytes(data)
        git_output("add", "-A", cwd=self.path)
        git_output("commit", "-q", "-m", "change", cwd=self.path)
        return git_output("rev-parse", "HEAD", cwd=self.path)

    @property
    def git_dir(self) -> Path:
        return self.path / ".git"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "source")


async def test_one_file_is_found_by_the_name_a_page_shows(repository: Repository) -> None:
    odd = b"caf\xe9*?[a] :(top).txt"
    (repository.path / "kept.txt").rename(repository.path / "moved.txt")
    (repository.path / os.fsdecode(odd)).write_bytes(b"x\n")
    head = repository.commit({"moved.txt": "same\n" * 20 + "more\n", "*": "star\n", "a": "1\n"})
    ends = (repository.git_dir, repository.base, head)
    for shown in (await diff_between(*ends)).files:
        alone = await file_diff_between(*ends, shown.path)
        assert alone == shown
    moved = await file_diff_between(*ends, "moved.txt")
    assert moved is not None
    assert (moved.change, moved.old_path, moved.additions) == ("renamed", "kept.txt", 1)
    assert await file_diff_between(*ends, "readme") is None
    assert await file_diff_between(*ends, "../../etc/passwd") is None


async def test_a_long_list_of_files_does_not_block_other_requests(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = repository.commit({"big": "line\n" * MEBIBYTE, "small": "1\n"})
    parse_entries, threads = diffs.parse_entries, []

    def noted(listing: bytes) -> list[Entry]:
        threads.append(threading.current_thread())
        return parse_entries(listing)

    monkeypatch.setattr(diffs, "parse_entries", noted)
    await diff_between(repository.git_dir, repository.base, head)
    await file_diff_between(repository.git_dir, repository.base, head, "small")
    # The list, and again with the numbers of large files; then for the one file.
    assert len(threads) >= 4
    assert threading.main_thread() not in threads


async def test_a_huge_file_is_counted_but_not_shown_and_the_others_are(
    repository: Repository,
) -> None:
    head = repository.commit(
        {"big": "line\n" * MEBIBYTE, "long": b"x" * 5 * MEBIBYTE, "small": "1\n", "bin": b"\0" * 9}
    )
    diff = await diff_between(repository.git_dir, repository.base, head)
    assert {file.path: (file.additions, file.complete, len(file.lines)) for file in diff.files} == {
        "big": (MEBIBYTE, False, 0),
        "bin": (0, True, 1),
        "long": (1, False, 0),
        "small": (1, True, 2),
    }
    assert (diff.additions, diff.changed_files, diff.complete) == (MEBIBYTE + 2, 4, False)
    big = await file_diff_between(repository.git_dir, repository.base, head, "big")
    assert big is not None
    assert (len(big.lines), big.complete, big.additions) == (10_000, False, MEBIBYTE)
    long = await file_diff_between(repository.git_dir, repository.base, head, "long")
    assert long is not None
    assert sum(len(line.text) for line in long.lines) < 5_000


async def test_a_file_that_takes_too_long_to_count_is_said_to_be_uncounted(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "_RECOUNT_SECONDS", 0.0)
    head = repository.commit({"big": "line\n" * MEBIBYTE, "small": "1\n"})
    diff = await diff_between(repository.git_dir, repository.base, head)
    assert [(file.path, file.counted) for file in diff.files] == [("big", False), ("small", True)]


async def test_many_files_are_listed_up_to_a_bound_and_counted_beyond(
    repository: Repository,
) -> None:
    head = repository.commit({f"{number:04}": "1\n2\n" for number in range(600)})
    diff = await diff_between(repository.git_dir, repository.base, head)
    assert (len(diff.files), diff.changed_files, diff.additions) == (500, 600, 1_200)
    assert not diff.complete
