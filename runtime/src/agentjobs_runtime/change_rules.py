"""Which changes of a commit the service does not propose, by their paths."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.git.trees import Change, TooManyChanges, changes_between
from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.repo_files.patterns import Pattern
from agentjobs_runtime.repo_files.rules import (
    format_paths,
    new_gitlinks,
    paths_matching,
    protected_paths,
)


@dataclass(frozen=True, slots=True)
class Protection:
    """Paths that the repository protects, and scripts that the service executes from it.

    `lifted` are those which an admin excluded from the service's own list.
    """

    added: tuple[Pattern, ...] = ()
    lifted: tuple[Pattern, ...] = ()
    executed: tuple[Pattern, ...] = ()


async def check_commit(mirror: Path, base: str, commit: str, protection: Protection) -> None:
    """Raises UnsafeChange."""
    try:
        changes = await changes_between(mirror, base, commit)
    except TooManyChanges as error:
        raise UnsafeChange("unsafe_change", f"The change touches {error}.") from None
    check_paths(changes, protection)


def check_paths(changes: Sequence[Change], protection: Protection) -> None:
    """Raises UnsafeChange."""
    refuse("a new submodule", new_gitlinks(changes))
    _refuse_protected([change.path for change in changes], protection)


def refuse(reason: str, paths: Sequence[bytes]) -> None:
    if paths:
        raise UnsafeChange("unsafe_change", f"The change contains {reason}: {format_paths(paths)}")


def _refuse_protected(paths: Sequence[bytes], protection: Protection) -> None:
    by_service = protected_paths(paths, protection.lifted, protection.executed)
    for matches, remedy in (
        (by_service, "`agentjobs repos lift` can allow it"),
        (paths_matching(paths, protection.added), "protected_paths in .agentjobs.toml names them"),
    ):
        if matches:
            message = f"The change touches protected paths: {format_paths(matches)}. ({remedy})"
            raise UnsafeChange("protected_path", message)
