"""Asks git the questions the rules need answered, and refuses what they forbid."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from agentjobs.git.blobs import blob_pieces, blob_sizes
from agentjobs.git.trees import REGULAR, Change
from agentjobs.workspace.errors import UnsafeChange
from agentjobs.workspace.git_file_checks import refuse_unsound
from agentjobs.workspace.patterns import Pattern
from agentjobs.workspace.rules import (
    LFS_POINTER_LIMIT_BYTES,
    is_lfs_pointer,
    new_gitlinks,
    paths_matching,
    protected_paths,
    shown,
)
from agentjobs.workspace.staging import Stage
from agentjobs.workspace.tree_scan import ATTRIBUTES, MAX_FILE_BYTES, Survey


async def judge_tree(stage: Stage, survey: Survey) -> None:
    """Before anything is staged. What the repository ignores is not proposed, so it may stay."""
    holders = {path: path.rpartition(b"/")[0] for path in survey.nested_git}
    ignored = await _ignored(stage, [*filter(None, holders.values()), *survey.oversized])
    _refuse("a nested git directory", [p for p in holders if holders[p] not in ignored])
    limit = f"a file above {MAX_FILE_BYTES // 1024**2} MiB"
    _refuse(limit, [path for path in survey.oversized if path not in ignored])


@dataclass(frozen=True, slots=True)
class Protection:
    """What the repository protects beyond the service's own list, and what of that is lifted."""

    added: tuple[Pattern, ...] = ()
    lifted: tuple[Pattern, ...] = ()


async def judge_changes(
    stage: Stage, survey: Survey, changes: Sequence[Change], protection: Protection
) -> None:
    """After staging, over what would be committed."""
    paths = [change.path for change in changes]
    _refuse("a new submodule", new_gitlinks(changes))
    special = set(survey.special)
    _refuse("neither a file nor a link", [path for path in paths if path in special])
    _refuse("a file kept by Git LFS", await _lfs_paths(stage, survey, changes))
    await refuse_unsound(stage, changes)
    _refuse_protected(paths, protection)


def _refuse(reason: str, paths: Sequence[bytes]) -> None:
    if paths:
        raise UnsafeChange("unsafe_change", f"The change holds {reason}: {shown(paths)}")


def _refuse_protected(paths: Sequence[bytes], protection: Protection) -> None:
    for paths_found, remedy in (
        (protected_paths(paths, protection.lifted), "`agentjobs repos lift` can allow it"),
        (paths_matching(paths, protection.added), "protected_paths in .agentjobs.toml names them"),
    ):
        if paths_found:
            message = f"The change touches protected paths: {shown(paths_found)}. ({remedy})"
            raise UnsafeChange("protected_path", message)


async def _ignored(stage: Stage, paths: Sequence[bytes]) -> set[bytes]:
    if not paths:
        return set()
    # The command has no literal mode; after "./" no name reads as anything but itself.
    # 1: none is ignored; 128: a path git will not look at, so nothing excuses it.
    listed = await stage.run(
        "check-ignore",
        "-z",
        "--stdin",
        input=_joined([b"./" + path for path in paths]),
        environment={"GIT_LITERAL_PATHSPECS": "0"},
        allowed_exit_codes=(0, 1, 128),
    )
    if listed.exit_code != 0:
        return set()
    return {path.removeprefix(b"./") for path in listed.stdout.split(b"\0")}


async def _lfs_paths(stage: Stage, survey: Survey, changes: Sequence[Change]) -> list[bytes]:
    paths = [change.path for change in changes]
    found: set[bytes] = set()
    if survey.has_attributes or any(path.split(b"/")[-1] == ATTRIBUTES for path in paths):
        for index in (stage.checkout.index, stage.index):
            checked = await stage.run(
                "check-attr",
                "--cached",
                "-z",
                "--stdin",
                "filter",
                input=_joined(paths),
                index=index,
            )
            fields = checked.stdout.split(b"\0")
            found.update(
                fields[at] for at in range(0, len(fields) - 2, 3) if fields[at + 2] == b"lfs"
            )
    pointers = await _pointers(stage, changes)
    return [
        change.path
        for change in changes
        if change.path in found or change.old_id in pointers or change.new_id in pointers
    ]


async def _pointers(stage: Stage, changes: Sequence[Change]) -> set[str]:
    """Those of the changed blobs, old and new, that are LFS pointers."""
    old = {change.old_id for change in changes if change.old_mode in REGULAR}
    new = {change.new_id for change in changes if change.new_mode in REGULAR}
    ids = sorted(old | new)
    sizes = await blob_sizes(stage.mirror, ids, environment=stage.environment)
    small = [
        blob for blob, size in zip(ids, sizes, strict=True) if 0 < size < LFS_POINTER_LIMIT_BYTES
    ]
    if not small:
        return set()
    contents: list[bytes] = []
    gathered = b""
    async with aclosing(blob_pieces(stage.mirror, small, environment=stage.environment)) as pieces:
        async for piece, is_last in pieces:
            gathered += piece
            if is_last:
                contents.append(gathered)
                gathered = b""
    return {blob for blob, content in zip(small, contents, strict=True) if is_lfs_pointer(content)}


def _joined(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
