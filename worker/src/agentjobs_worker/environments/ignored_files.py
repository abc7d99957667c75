"""Moves the files that git ignores out of a tree in which setup has run. Does not trust the tree.

Tracked files and other new files stay behind: every job begins with a checkout of its own. So the
rules must be those that a job has: of the commit, and of files that are themselves ignored.
"""

import os
from pathlib import Path

from agentjobs_runtime.git.process import GitError, GitResult, git
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.environments.setup_files import make_readable
from agentjobs_worker.workspace.checkout import Checkout
from agentjobs_worker.workspace.staging import ADD_CONFIGURATION

MAX_PATHS = 100_000
_LIST = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_RULES = (":(glob)**/.gitignore",)
# Each new file of rules that is not kept may have hidden others.
_MAX_PASSES = 10
_LIST_SECONDS = 300


async def move_ignored_files(mirror: Path, checkout: Checkout, target: Path) -> None:
    """A directory that git ignores as a whole is moved at once. The sandbox must be dead.

    Raises EnvironmentFailed and OSError.
    """
    try:
        await run_in_thread(make_readable, os.fsencode(checkout.tree))
        await _restore_rules(mirror, checkout)
        paths = await _list(mirror, checkout, *_LIST)
    except GitError as error:
        raise EnvironmentFailed(
            f"The files that setup left cannot be listed: {error.reason}"
        ) from None
    if len(paths) > MAX_PATHS:
        raise EnvironmentFailed(
            f"Setup left more than {MAX_PATHS:,} ignored files outside of ignored directories."
        )
    await run_in_thread(_move, checkout.tree, target, _outermost(paths))


def _outermost(paths: list[bytes]) -> list[bytes]:
    """Omits paths in a listed directory: git lists a `.gitignore` there that ignores itself."""
    listed = set(paths)

    def is_inside(path: bytes) -> bool:
        parts = path.split(b"/")
        return any(b"/".join(parts[:count]) in listed for count in range(1, len(parts)))

    return [path for path in paths if not is_inside(path)]


async def _restore_rules(mirror: Path, checkout: Checkout) -> None:
    tracked = await _list(mirror, checkout, "ls-files", "-z", "--", *_RULES)
    if tracked:
        await _git(
            *("checkout-index", "--force", "-z", "--stdin"),
            mirror=mirror,
            checkout=checkout,
            input=b"\0".join(tracked) + b"\0",
        )
    new_rules = ("ls-files", "-z", "--others", "--exclude-standard", "--", *_RULES)
    for _ in range(_MAX_PASSES):
        if not (paths := await _list(mirror, checkout, *new_rules)):
            return
        await run_in_thread(_unlink, checkout.tree, paths)
    raise EnvironmentFailed("Setup left too many files `.gitignore` that ignore one another.")


async def _list(mirror: Path, checkout: Checkout, *arguments: str) -> list[bytes]:
    listed = await _git(*arguments, mirror=mirror, checkout=checkout)
    return [path.rstrip(b"/") for path in listed.stdout.split(b"\0") if path]


async def _git(
    *arguments: str, mirror: Path, checkout: Checkout, input: bytes | None = None
) -> GitResult:
    return await git(
        *arguments,
        git_dir=mirror,
        work_tree=checkout.tree,
        index_file=checkout.index,
        cwd=checkout.tree,
        configuration=ADD_CONFIGURATION,
        environment={"GIT_LITERAL_PATHSPECS": "0"},
        timeout_seconds=_LIST_SECONDS,
        input=input,
    )


def _unlink(tree: Path, paths: list[bytes]) -> None:
    for path in paths:
        parent = os.path.dirname(path)  # noqa: PTH120 - bytes
        _make_writable(os.path.join(os.fsencode(tree), parent))  # noqa: PTH118 - bytes
        os.unlink(os.fsencode(tree) + b"/" + path)  # noqa: PTH108 - bytes


def _move(tree: Path, target: Path, paths: list[bytes]) -> None:
    owner = tree.stat()
    root = os.fsencode(tree)
    for path in paths:
        if path.split(b"/", 1)[0] == b".git":
            continue
        destination = os.fsencode(target) + b"/" + path
        _create_parents(os.fsencode(target), path, owner)
        source = root + b"/" + path
        _make_writable(os.path.dirname(source))  # noqa: PTH120 - bytes
        if not os.path.islink(source) and os.path.isdir(source):  # noqa: PTH112, PTH114 - bytes
            # Only a directory that its owner can write may get another parent.
            _make_writable(source)
        os.rename(source, destination)  # noqa: PTH104 - bytes


def _make_writable(directory: bytes) -> None:
    mode = os.lstat(directory).st_mode
    if mode & 0o700 != 0o700:
        os.chmod(directory, mode | 0o700)  # noqa: PTH101 - bytes


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
