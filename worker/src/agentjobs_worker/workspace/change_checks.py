"""Checks an agent's tree and changes against the rules, with the help of git."""

from collections.abc import Sequence

from agentjobs_runtime.change_rules import Protection, check_paths, refuse
from agentjobs_runtime.git.blobs import blob_sizes, read_small_blobs
from agentjobs_runtime.git.trees import REGULAR, Change
from agentjobs_runtime.repo_files.rules import (
    MAX_LFS_POINTER_BYTES,
    is_lfs_pointer,
)
from agentjobs_worker.workspace.git_file_checks import refuse_unsafe_git_files
from agentjobs_worker.workspace.staging import Stage
from agentjobs_worker.workspace.tree_scan import ATTRIBUTES, MAX_FILE_BYTES, TreeScan


async def check_tree(stage: Stage, scan: TreeScan) -> None:
    """Run before staging. Ignored paths are not committed, so they may stay."""
    parents = {path: path.rpartition(b"/")[0] for path in scan.nested_git}
    ignored = await _find_ignored(stage, [*filter(None, parents.values()), *scan.oversized])
    refuse("a nested git directory", [p for p in parents if parents[p] not in ignored])
    limit = f"a file above {MAX_FILE_BYTES // 1024**2} MiB"
    refuse(limit, [path for path in scan.oversized if path not in ignored])


async def check_changes(
    stage: Stage, scan: TreeScan, changes: Sequence[Change], protection: Protection
) -> None:
    """Run after staging, on the changes that would be committed."""
    paths = [change.path for change in changes]
    special = set(scan.special)
    refuse("a path that is neither a file nor a link", [path for path in paths if path in special])
    refuse("a file tracked by Git LFS", await _lfs_paths(stage, scan, changes))
    await refuse_unsafe_git_files(stage, changes)
    check_paths(changes, protection)


async def _find_ignored(stage: Stage, paths: Sequence[bytes]) -> set[bytes]:
    if not paths:
        return set()
    # The command has no literal mode; after "./" every name is read literally.
    # 1: none is ignored; 128: a path that git refuses, so it is not ignored either.
    listed = await stage.run(
        "check-ignore",
        "-z",
        "--stdin",
        input=_join_paths([b"./" + path for path in paths]),
        environment={"GIT_LITERAL_PATHSPECS": "0"},
        allowed_exit_codes=(0, 1, 128),
    )
    if listed.exit_code != 0:
        return set()
    return {path.removeprefix(b"./") for path in listed.stdout.split(b"\0")}


async def _lfs_paths(stage: Stage, scan: TreeScan, changes: Sequence[Change]) -> list[bytes]:
    paths = [change.path for change in changes]
    lfs_paths: set[bytes] = set()
    if scan.has_attributes or any(path.split(b"/")[-1] == ATTRIBUTES for path in paths):
        for index in (stage.checkout.index, stage.index):
            checked = await stage.run(
                "check-attr",
                "--cached",
                "-z",
                "--stdin",
                "filter",
                input=_join_paths(paths),
                index=index,
            )
            fields = checked.stdout.split(b"\0")
            lfs_paths.update(
                fields[at] for at in range(0, len(fields) - 2, 3) if fields[at + 2] == b"lfs"
            )
    pointers = await _lfs_pointers(stage, changes)
    return [
        change.path
        for change in changes
        if change.path in lfs_paths or change.old_id in pointers or change.new_id in pointers
    ]


async def _lfs_pointers(stage: Stage, changes: Sequence[Change]) -> set[str]:
    """The changed blobs, old and new, that are LFS pointers."""
    old = {change.old_id for change in changes if change.old_mode in REGULAR}
    new = {change.new_id for change in changes if change.new_mode in REGULAR}
    ids = sorted(old | new)
    sizes = await blob_sizes(stage.mirror, ids, environment=stage.environment)
    small = [
        blob for blob, size in zip(ids, sizes, strict=True) if 0 < size < MAX_LFS_POINTER_BYTES
    ]
    contents = await read_small_blobs(stage.mirror, small, environment=stage.environment)
    return {blob for blob, content in zip(small, contents, strict=True) if is_lfs_pointer(content)}


def _join_paths(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
