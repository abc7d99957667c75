"""Has git itself look at changed files that steer git: a careful host refuses bad ones at the push.

Such a file may name a submodule's address that is an option, or a path that leaves the repository.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from agentjobs.git.process import GitError
from agentjobs.git.trees import GITLINK, Change
from agentjobs.workspace.errors import UnsafeChange
from agentjobs.workspace.patterns import folded_names
from agentjobs.workspace.rules import printable
from agentjobs.workspace.staging import Stage
from agentjobs.workspace.threads import to_its_end

GONE = "000000"

# On Windows these are short names of the files.
_STEERING = re.compile(r"\.git(modules|attributes)|git(mod|att)?[a-z0-9]*~\d")
_FOUND = re.compile(r"object \S+: (\w+): (.*)")


async def refuse_unsound(stage: Stage, changes: Sequence[Change]) -> None:
    """Asks git only if such a file changed, which is rare."""
    steering = [change for change in changes if _is_steering(change)]
    if not steering:
        return
    objects = await to_its_end(_side_store, stage)
    checked = await stage.run(
        "index-pack",
        "--strict",
        str(await _packed(stage, steering, objects)),
        environment={"GIT_OBJECT_DIRECTORY": str(objects)},
        allowed_exit_codes=(0, 1, 128),
    )
    if checked.exit_code != 0:
        paths = ", ".join(printable(change.path) for change in steering)
        found = _FOUND.search(checked.stderr)
        reason = found[2] if found else GitError(("index-pack",), 1, checked.stderr).reason
        message = f"The change holds a file that git refuses: {paths}: {printable(reason.encode())}"
        raise UnsafeChange("unsafe_change", message)


def _is_steering(change: Change) -> bool:
    name = folded_names(change.path)[-1]
    return change.new_mode not in {GONE, GITLINK} and _STEERING.fullmatch(name) is not None


def _side_store(stage: Stage) -> Path:
    """A place for objects that are made for the check alone and go with the stage."""
    objects = stage.directory / "side"
    (objects / "info").mkdir(parents=True)
    others = (stage.objects, stage.mirror / "objects")
    lines = "".join(f"{os.path.relpath(other, objects)}\n" for other in others)
    (objects / "info" / "alternates").write_text(lines, encoding="ascii")
    return objects


async def _packed(stage: Stage, changes: Sequence[Change], objects: Path) -> Path:
    """A pack of these files, each in a directory of its own under its own name."""
    described = b"".join(
        f"{change.new_mode} blob {change.new_id}\t".encode("ascii")
        + change.path.rpartition(b"/")[2]
        # The second one ends the directory.
        + b"\0\0"
        for change in changes
    )
    environment = {"GIT_OBJECT_DIRECTORY": str(objects)}
    made = await stage.run("mktree", "-z", "--batch", input=described, environment=environment)
    ids = {*made.stdout.decode("ascii").split(), *(change.new_id for change in changes)}
    packed = await stage.run(
        "pack-objects",
        "--quiet",
        str(objects / "pack"),
        input="".join(f"{one}\n" for one in sorted(ids)).encode("ascii"),
        environment=environment,
    )
    return objects / f"pack-{packed.stdout.decode('ascii').strip()}.pack"
