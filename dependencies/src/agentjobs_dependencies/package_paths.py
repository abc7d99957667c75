"""Finds the shortest path to each package of a lock file, and its scope."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentjobs_dependencies.model import Dependency, Locked, Scope

SCOPES: tuple[Scope, ...] = ("runtime", "optional", "dev")

# Longer paths are not useful, and a chain of 100,000 packages would exhaust the memory.
MAX_PARENTS = 32


class PackagePath(NamedTuple):
    scope: Scope
    parents: tuple[str, ...] = ()


def stronger(scope: Scope, other: Scope) -> Scope:
    """The scope of a package required in both: runtime before optional before dev."""
    return min(scope, other, key=SCOPES.index)


def find_paths(packages: Sequence[Locked], direct: Mapping[int, Scope]) -> dict[int, PackagePath]:
    """Shortest paths; those from runtime dependencies take precedence."""
    previous: dict[int, int] = {}
    origin: dict[int, int] = {}
    scopes: dict[int, Scope] = {}
    for scope in SCOPES:
        queue = [at for at, own in direct.items() if own == scope and at not in scopes]
        for at in queue:
            scopes[at], origin[at] = scope, at
        for at in queue:  # Grows during the loop.
            for required in packages[at].requires:
                if required not in scopes and 0 <= required < len(packages):
                    scopes[required], origin[required] = scope, origin[at]
                    previous[required] = at
                    queue.append(required)
    return {
        at: PackagePath(
            scope if packages[at].scope == "runtime" else packages[at].scope,
            () if at in direct else _parents(packages, at, previous, origin),
        )
        for at, scope in scopes.items()
    }


def _parents(
    packages: Sequence[Locked], at: int, previous: Mapping[int, int], origin: Mapping[int, int]
) -> tuple[str, ...]:
    path: list[str] = []
    first = origin[at]
    while at != first and len(path) < MAX_PARENTS - 1:
        at = previous[at]
        path.append(packages[at].name)
    if at != first:
        path.append(packages[first].name)
    return tuple(reversed(path))


def find_parents(dependencies: Sequence[Dependency]) -> dict[int, int]:
    """The position of the parent of each transitive dependency, if it is known.

    A lock file may have several versions of one name. The parent is the one with a matching path,
    or else the first one of that name.
    """
    by_path: dict[tuple[str, ...], int] = {}
    by_name: dict[tuple[str, str, str], int] = {}
    for at, row in enumerate(dependencies):
        key = (row.manifest, row.ecosystem, row.name)
        by_path.setdefault((*key, *row.parents), at)
        by_name.setdefault(key, at)
    parents: dict[int, int] = {}
    for at, row in enumerate(dependencies):
        if row.parents:
            *ancestors, parent = row.parents
            key = (row.manifest, row.ecosystem, parent)
            position = by_path.get((*key, *ancestors), by_name.get(key))
            if position is not None and position != at:
                parents[at] = position
    return parents
