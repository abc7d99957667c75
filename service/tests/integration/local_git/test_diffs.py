"""Diffs of real repositories: odd names, renames, and files too large to be read whole."""

import os
import threading
from pathlib import Path

import pytest

from agentjobs.local_git import diffs, patch
from agentjobs.local_git.diffs import diff_between, file_diff_between, read_unified
from agentjobs.local_git.patch import Entry
from agentjobs.local_git.unified_diff import parse_unified
from tests.support.git_commands import git_output

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

    for module in (diffs, patch):
        monkeypatch.setattr(module, "parse_entries", noted)
    await diff_between(repository.git_dir, repository.base, head)
    await file_diff_between(repository.git_dir, repository.base, head, "small")
    assert len(threads) >= 2
    assert threading.main_thread() not in threads


async def test_a_huge_file_is_shown_like_a_binary_one_and_the_others_are_shown(
    repository: Repository,
) -> None:
    head = repository.commit(
        {"big": "line\n" * MEBIBYTE, "long": b"x" * MEBIBYTE, "small": "1\n", "bin": b"\0" * 9}
    )
    diff = await diff_between(repository.git_dir, repository.base, head)
    assert {file.path: (file.additions, file.complete, len(file.lines)) for file in diff.files} == {
        "big": (0, True, 1),
        "bin": (0, True, 1),
        "long": (1, False, 1),
        "small": (1, True, 2),
    }
    assert (diff.additions, diff.changed_files, diff.complete) == (2, 4, False)
    long = await file_diff_between(repository.git_dir, repository.base, head, "long")
    assert long is not None
    assert sum(len(line.text) for line in long.lines) < 5_000


async def test_many_files_are_listed_up_to_a_bound_and_counted_beyond(
    repository: Repository,
) -> None:
    head = repository.commit({f"{number:04}": "1\n2\n" for number in range(600)})
    diff = await diff_between(repository.git_dir, repository.base, head)
    assert (len(diff.files), diff.changed_files, diff.additions) == (500, 600, 1_200)
    assert not diff.complete


async def test_a_unified_diff_has_the_files_that_pages_show(repository: Repository) -> None:
    (repository.path / "kept.txt").rename(repository.path / 'tab\t"quoted" café.txt')
    (repository.path / "readme").unlink()
    (repository.path / "readme").symlink_to("elsewhere")
    not_utf8 = os.fsdecode(b"caf\xe9 b/x")
    for directory in ("b", Path(not_utf8).parent):
        (repository.path / directory).mkdir()
    head = repository.commit(
        {
            "b/ a": "x\n",
            "binary": b"\0\1",
            "empty": b"",
            not_utf8: b"+\n-\n\xff\n",
            "new\nline": "diff --git a/x b/x\n",
        }
    )
    ends = (repository.git_dir, repository.base, head)
    text, is_complete = await read_unified(*ends, max_bytes=MEBIBYTE)
    assert is_complete
    shown = [
        (file.path, file.old_path, file.additions, file.deletions)
        for file in (await diff_between(*ends)).files
    ]
    parsed = parse_unified(text)
    assert [
        (file.path, file.previous_path, file.additions, file.deletions) for file in parsed
    ] == shown
    assert "café.txt" in text.decode(errors="replace")
    assert [file.path for file in parsed if file.binary] == ["binary"]
    assert [file.status for file in parsed if file.path == "readme"] == ["modified"]


async def test_a_long_unified_diff_is_read_up_to_a_whole_file(repository: Repository) -> None:
    head = repository.commit({f"{number}.txt": "line\n" * 100 for number in range(50)})
    text, is_complete = await read_unified(
        repository.git_dir, repository.base, head, max_bytes=5_000
    )
    assert not is_complete
    assert len(text) <= 5_000
    assert {file.additions for file in parse_unified(text)} == {100}


async def test_a_unified_diff_leaves_out_what_the_base_changed_meanwhile(
    repository: Repository,
) -> None:
    git_output("checkout", "-q", "-b", "job", cwd=repository.path)
    head = repository.commit({"job.txt": "x\n"})
    git_output("checkout", "-q", "-b", "later", repository.base, cwd=repository.path)
    later = repository.commit({"later.txt": "x\n"})
    text, _ = await read_unified(repository.git_dir, later, head, max_bytes=MEBIBYTE)
    assert [file.path for file in parse_unified(text)] == ["job.txt"]
