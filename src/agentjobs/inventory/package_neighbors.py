"""A package among the others of a repository: who asks for it, and what it asks for.

As far as lock files tell by the shortest way to each: knows one path to a package, not all.
"""

import msgspec

from agentjobs.inventory.dependencies import DependencyView, dependency_view
from agentjobs.store.database import Database
from agentjobs.store.like_pattern import escaped

_MAX_ROWS = 1_000


class PackageNeighbours(msgspec.Struct, frozen=True):
    """`itself` are its rows, in every version and manifest. Names are in order and told once;
    `manifests` are the projects that ask for it themselves."""

    itself: tuple[DependencyView, ...]
    manifests: tuple[str, ...]
    askers: tuple[str, ...]
    asked: tuple[DependencyView, ...]


async def package_neighbours(
    db: Database, repo_id: str, ecosystem: str, name: str
) -> PackageNeighbours | None:
    """None if no manifest leads to it."""
    if "\0" in ecosystem or "\0" in name:
        return None
    own = await _rows(db, "d.name = :text", repo_id, ecosystem, name)
    if not own:
        return None
    # The end of a JSON list; what looks like it by chance is left out below.
    tail = msgspec.json.encode(name).decode() + "]"
    pattern = f"%{escaped(tail)}"
    ending = await _rows(db, "d.parents LIKE :text ESCAPE '!'", repo_id, ecosystem, pattern)
    asked = {one.name: one for one in reversed(ending) if one.parents[-1:] == (name,)}
    return PackageNeighbours(
        itself=tuple(own),
        manifests=tuple(sorted({one.manifest for one in own if one.direct})),
        askers=tuple(sorted({one.parents[-1] for one in own if one.parents})),
        asked=tuple(sorted(asked.values(), key=lambda one: one.name)),
    )


async def _rows(
    db: Database, clause: str, repo_id: str, ecosystem: str, text: str
) -> list[DependencyView]:
    rows = await db.fetch_all(
        "SELECT d.* FROM dependencies d WHERE d.repo_id = :repo_id AND d.ecosystem = :ecosystem"
        f" AND {clause} ORDER BY d.position LIMIT :limit",
        repo_id=repo_id,
        ecosystem=ecosystem,
        text=text,
        limit=_MAX_ROWS,
    )
    return [dependency_view(row) for row in rows]
