"""Follows a lock file from what its projects ask for: who leads to a package, in what scope."""

from collections.abc import Mapping, Sequence

import msgspec

from agentjobs.inventory.model import Locked, Scope

SCOPES: tuple[Scope, ...] = ("runtime", "optional", "dev")

# A longer way helps nobody, and a chain of a hundred thousand would fill the memory.
MAX_PARENTS = 32


class Reached(msgspec.Struct, frozen=True):
    scope: Scope
    parents: tuple[str, ...] = ()


def stronger(one: Scope, other: Scope) -> Scope:
    """What runs in production counts as that, whoever else wants it."""
    return min(one, other, key=SCOPES.index)


def walk(packages: Sequence[Locked], seeds: Mapping[int, Scope]) -> dict[int, Reached]:
    """Shortest ways, those from what runs in production before all others."""
    came_from: dict[int, int] = {}
    origin: dict[int, int] = {}
    scopes: dict[int, Scope] = {}
    for scope in SCOPES:
        queue = [at for at, wanted in seeds.items() if wanted == scope and at not in scopes]
        for at in queue:
            scopes[at], origin[at] = scope, at
        for at in queue:  # Grows while it is walked.
            for required in packages[at].requires:
                if required not in scopes and 0 <= required < len(packages):
                    scopes[required], origin[required] = scope, origin[at]
                    came_from[required] = at
                    queue.append(required)
    return {
        at: Reached(
            scope if packages[at].scope == "runtime" else packages[at].scope,
            () if at in seeds else _parents(packages, at, came_from, origin),
        )
        for at, scope in scopes.items()
    }


def _parents(
    packages: Sequence[Locked], at: int, came_from: Mapping[int, int], origin: Mapping[int, int]
) -> tuple[str, ...]:
    way: list[str] = []
    first = origin[at]
    while at != first and len(way) < MAX_PARENTS - 1:
        at = came_from[at]
        way.append(packages[at].name)
    if at != first:
        way.append(packages[first].name)
    return tuple(reversed(way))
