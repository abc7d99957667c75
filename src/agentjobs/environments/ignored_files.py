"""Moves the files that git ignores out of a tree in which setup has run. Does not trust the tree.

Tracked files and other new files stay behind: every job begins with a checkout of its own.
"""

import os
from pathlib import Path

from agentjobs.environments.errors import EnvironmentFailed
from agentjobs.git.process import GitError, git
from agentjobs.workspace.checkout import Checkout
from agentjobs.workspace.staging import ADD_CONFIGURATION
from agentjobs.workspace.threads import run_in_thread

MAX_PATHS = 100_000
_LIST = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_LIST_SECONDS = 300


async def move_ignored_files(mirror: Path, checkout: Checkout, target: Path) -> None:
    """A directory that git ignores as a whole is moved at once. The sandbox must be dead.

    Raises EnvironmentFailed and OSError.
    """
    try:
        listed = await git(
            *_LIST,
            git_dir=mirror,
            work_tree=checkout.tree,
            index_file=checkout.index,
            cwd=checkout.tree,
            configuration=ADD_CONFIGURATION,
            timeout_seconds=_LIST_SECONDS,
        )
    except GitError as error:
        raise EnvironmentFailed(
            f"The files that setup left cannot be listed: {error.reason}"
        ) from None
    paths = [path.rstrip(b"/") for path in listed.stdout.split(b"\0") if path]
    if len(paths) > MAX_PATHS:
        raise EnvironmentFailed(
            f"Setup left more than {MAX_PATHS:,} ignored files outside of ignored directories."
        )
    await run_in_thread(_move, checkout.tree, target, paths)


def _move(tree: Path, target: Path, paths: list[bytes]) -> None:
    owner = tree.stat()
    root = os.fsencode(tree)
    for path in paths:
        if path.split(b"/", 1)[0] == b".git":
            continue
        destination = os.fsencode(target) + b"/" + path
        _create_parents(os.fsencode(target), path, owner)
        source = root + b"/" + path
        if not os.path.islink(source) and os.path.isdir(source):  # noqa: PTH112, PTH114 - bytes
            # Only a directory that its owner can write may get another parent.
            os.chmod(source, os.lstat(source).st_mode | 0o700)  # noqa: PTH101 - bytes
        os.rename(source, destination)  # noqa: PTH104 - bytes


def _create_parents(root: bytes, path: bytes, owner: os.stat_result) -> None:
    parent = root
    for part in path.split(b"/")[:-1]:
        parent += b"/" + part
        try:
            os.mkdir(parent, 0o755)  # noqa: PTH102 - bytes
        except FileExistsError:
            continue
        if os.geteuid() == 0:
            os.chown(parent, owner.st_uid, owner.st_gid)
