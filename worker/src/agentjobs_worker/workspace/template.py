"""Templates: one finished checkout per repository and commit, which jobs get copies of.

A template contains `tree/` (files and a disposable `.git` with one commit, no remote, no hooks),
`index` (the staging index of the untouched tree) and `size` (its number of entries and bytes).
"""

import contextlib
import functools
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.files.cache import CacheItem
from agentjobs_runtime.files.copying import copy_tree, measure_tree
from agentjobs_runtime.files.locks import borrow, take
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.git.process import git
from agentjobs_runtime.threads import run_in_thread

MAX_PER_REPO = 2
BUILD_TIMEOUT_SECONDS = 1_800

# Copies have other inodes and change times than the index records; size and modification time
# are enough. The identity lets an agent's own tools commit.
STAT_CONFIGURATION = {"core.checkStat": "minimal", "core.trustctime": "false"}
_GIT_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tcheckStat = minimal
\ttrustctime = false
[user]
\tname = agentjobs
\temail = agentjobs@localhost
"""


@dataclass(frozen=True, slots=True)
class Size:
    entries: int
    size_bytes: int


class Templates:
    """Retired templates are moved to `scratch`, a directory of this process, for removal."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self._scratch = scratch

    @contextmanager
    def borrow(self, repo_id: str, commit: str) -> Iterator[Path | None]:
        """The template's directory, protected from removal; None if there is none."""
        directory = self._root / repo_id / commit
        with borrow(directory) as exists:
            yield directory if exists else None

    def add(self, repo_id: str, commit: str, built: Path) -> None:
        """Blocking: move a finished template into place and retire the least recently used."""
        home = self._root / repo_id
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (home / commit).exists():
            built.rename(home / commit)
        for old in _by_last_use(home.iterdir())[:-MAX_PER_REPO]:
            self._retire(old)

    def remove_empty_directory(self, repo_id: str) -> None:
        """For a repository that was deleted."""
        with contextlib.suppress(OSError):
            (self._root / repo_id).rmdir()

    async def items(self) -> list[CacheItem]:
        return await run_in_thread(self._items)

    def _items(self) -> list[CacheItem]:
        items = []
        for directory in _by_last_use(self._root.glob("*/*")):
            with contextlib.suppress(FileNotFoundError):
                items.append(self._item(directory))
        return items

    def _item(self, directory: Path) -> CacheItem:
        repo_id = directory.parent.name
        return CacheItem(
            repo_id,
            f"the tree of {repo_id} at {directory.name[:12]}",
            read_size(directory).size_bytes,
            directory.stat().st_mtime_ns,
            functools.partial(run_in_thread, self._retire, directory),
        )

    def _retire(self, directory: Path) -> bool:
        moved = self._scratch / f"retired-{secrets.token_hex(8)}"
        is_taken = take(directory, moved)
        remove(moved)
        return is_taken


def copy_template(template: Path, directory: Path) -> Size:
    """Blocking."""
    size = read_size(template)
    copy_tree(template / "tree", directory / "tree", entries=size.entries)
    shutil.copyfile(template / "index", directory / "index")
    return size


def move_template(template: Path, directory: Path) -> Size:
    """Blocking: use the template itself as a copy, on the same file system."""
    for name in ("tree", "index"):
        (template / name).rename(directory / name)
    return read_size(template)


def read_size(template: Path) -> Size:
    """Blocks for microseconds only."""
    entries, size_bytes = (template / "size").read_text(encoding="ascii").split()
    return Size(int(entries), int(size_bytes))


def _by_last_use(directories: Iterable[Path]) -> list[Path]:
    by_use = []
    for directory in directories:
        # Another process may retire it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            by_use.append((directory.stat().st_mtime_ns, directory))
    return [directory for _, directory in sorted(by_use)]


async def build_template(mirror: Path, commit: str, directory: Path, max_bytes: int) -> None:
    """Write the template of one commit into an empty directory."""
    tree = directory / "tree"
    git_dir = tree / ".git"
    _write_git_dir(git_dir, commit)
    await git(
        "pack-objects",
        "--quiet",
        "--revs",
        # The pack lives as long as the template, so searching for deltas does not pay off.
        "--window=0",
        str(git_dir / "objects" / "pack" / "pack"),
        git_dir=mirror,
        input=f"--shallow {commit}\n{commit}\n".encode("ascii"),
        timeout_seconds=BUILD_TIMEOUT_SECONDS,
    )
    await git(
        "reset",
        "--quiet",
        "--hard",
        git_dir=git_dir,
        work_tree=tree,
        cwd=tree,
        timeout_seconds=BUILD_TIMEOUT_SECONDS,
        # Attributes of the tree, such as an encoding, make files larger than their objects.
        max_written_bytes=max_bytes,
    )
    await run_in_thread(_describe, directory)


def _write_git_dir(git_dir: Path, commit: str) -> None:
    for path in (git_dir / "objects" / "pack", git_dir / "refs" / "heads"):
        path.mkdir(parents=True)
    for name, text in (
        ("HEAD", "ref: refs/heads/base\n"),
        ("refs/heads/base", f"{commit}\n"),
        ("shallow", f"{commit}\n"),
        ("config", _GIT_CONFIG),
    ):
        (git_dir / name).write_text(text, encoding="ascii")


def _describe(directory: Path) -> None:
    tree = directory / "tree"
    (tree / ".git" / "ORIG_HEAD").unlink(missing_ok=True)
    shutil.copyfile(tree / ".git" / "index", directory / "index")
    entries, size_bytes = measure_tree(tree)
    (directory / "size").write_text(f"{entries} {size_bytes}\n", encoding="ascii")
