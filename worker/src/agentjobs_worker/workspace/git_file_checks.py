"""Has git check changed files that configure git, because a strict host refuses bad ones on push.

Such a file may give a submodule a URL that is an option, or a path outside the repository.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.trees import GITLINK, Change
from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.repo_files.patterns import fold_path
from agentjobs_runtime.repo_files.rules import printable_path
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.workspace.staging import Stage

DELETED_MODE = "000000"

# Includes the short names of these files on Windows.
_CONFIGURING_NAME = re.compile(r"\.git(modules|attributes)|git(mod|att)?[a-z0-9]*~\d")
_FSCK_MESSAGE = re.compile(r"object \S+: (\w+): (.*)")


async def refuse_unsafe_git_files(stage: Stage, changes: Sequence[Change]) -> None:
    """Runs git only if such a file changed, which is rare."""
    git_files = [change for change in changes if _is_git_file(change)]
    if not git_files:
        return
    objects = await run_in_thread(_create_object_directory, stage)
    checked = await stage.run(
        "index-pack",
        "--strict",
        str(await _pack(stage, git_files, objects)),
        environment={"GIT_OBJECT_DIRECTORY": str(objects)},
        allowed_exit_codes=(0, 1, 128),
    )
    if checked.exit_code != 0:
        paths = ", ".join(printable_path(change.path) for change in git_files)
        fsck_message = _FSCK_MESSAGE.search(checked.stderr)
        reason = (
            fsck_message[2] if fsck_message else GitError(("index-pack",), 1, checked.stderr).reason
        )
        text = printable_path(reason.encode())
        message = f"The change contains a file that git refuses: {paths}: {text}"
        raise UnsafeChange("unsafe_change", message)


def _is_git_file(change: Change) -> bool:
    name = fold_path(change.path)[-1]
    return (
        change.new_mode not in {DELETED_MODE, GITLINK}
        and _CONFIGURING_NAME.fullmatch(name) is not None
    )


def _create_object_directory(stage: Stage) -> Path:
    """A directory for objects of this check, removed with the stage."""
    objects = stage.directory / "side"
    (objects / "info").mkdir(parents=True)
    others = (stage.objects, stage.mirror / "objects")
    lines = "".join(f"{os.path.relpath(other, objects)}\n" for other in others)
    (objects / "info" / "alternates").write_text(lines, encoding="ascii")
    return objects


async def _pack(stage: Stage, changes: Sequence[Change], objects: Path) -> Path:
    """A pack of these files, each under its name in a separate directory."""
    tree_listing = b"".join(
        f"{change.new_mode} blob {change.new_id}\t".encode("ascii")
        + change.path.rpartition(b"/")[2]
        # The second NUL ends the directory.
        + b"\0\0"
        for change in changes
    )
    environment = {"GIT_OBJECT_DIRECTORY": str(objects)}
    trees = await stage.run("mktree", "-z", "--batch", input=tree_listing, environment=environment)
    ids = {*trees.stdout.decode("ascii").split(), *(change.new_id for change in changes)}
    packed = await stage.run(
        "pack-objects",
        "--quiet",
        str(objects / "pack"),
        input="".join(f"{object_id}\n" for object_id in sorted(ids)).encode("ascii"),
        environment=environment,
    )
    return objects / f"pack-{packed.stdout.decode('ascii').strip()}.pack"
