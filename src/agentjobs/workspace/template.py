"""Warm trees: per repository and commit one finished checkout that jobs get copies of.

A template holds `tree/` (files and a disposable `.git` with the one commit, no remote, no hooks),
`index` (the staging index of the untouched tree) and `entries` (how many files there are).
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentjobs.git.process import git
from agentjobs.workspace.copying import count_entries
from agentjobs.workspace.locks import try_lock
from agentjobs.workspace.removal import remove
from agentjobs.workspace.threads import to_its_end

KEPT_PER_REPO = 2
BUILD_TIMEOUT_SECONDS = 1_800

# The copies have other inodes and change times than the index remembers; size and
# modification time tell enough. The identity lets an agent's own tools commit.
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


class Templates:
    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def borrow(self, repo_id: str, commit: str) -> Iterator[Path | None]:
        """The template's directory, safe from removal meanwhile; None when there is none."""
        directory = self._root / repo_id / commit
        descriptor = try_lock(directory, shared=True)
        if descriptor is None:
            yield None
            return
        try:
            os.utime(descriptor)
            yield directory
        finally:
            os.close(descriptor)

    def keep(self, repo_id: str, commit: str, built: Path, scratch: Path) -> None:
        """Blocking: put a finished template in its place and retire those not used lately."""
        home = self._root / repo_id
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (home / commit).exists():
            built.rename(home / commit)
        by_last_use = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for old in by_last_use[:-KEPT_PER_REPO]:
            _retire(old, scratch)


async def build_template(mirror: Path, commit: str, directory: Path) -> None:
    """Write the template of one commit into an empty directory."""
    tree = directory / "tree"
    git_dir = tree / ".git"
    _write_git_dir(git_dir, commit)
    await git(
        "pack-objects",
        "--quiet",
        "--revs",
        # The pack lives as long as the template does: searching for deltas would not pay.
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
    )
    await to_its_end(_describe, directory)


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
    (directory / "entries").write_text(str(count_entries(tree)), encoding="ascii")


def _retire(directory: Path, scratch: Path) -> None:
    descriptor = try_lock(directory)
    if descriptor is None:
        return
    moved = directory.rename(scratch / f"retired-{secrets.token_hex(8)}")
    os.close(descriptor)
    remove(moved)
