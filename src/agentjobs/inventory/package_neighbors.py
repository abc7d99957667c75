"""The packages of a repository that depend on a package, and those that it depends on.

Knows only the shortest path from a manifest to each package, not all paths.
"""

import msgspec

from agentjobs.inventory.dependencies import DependencyView, dependency_view
from agentjobs.store.database import Database
from agentjobs.store.like_pattern import escape_like

_MAX_ROWS = 1_000


class PackageNeighbors(msgspec.Struct, frozen=True):
    """The `package_rows` of the package have every version and manifest; `manifests` require it
    directly. Names are sorted and distinct."""

    package_rows: tuple[DependencyView, ...]
    manifests: tuple[str, ...]
    dependents: tuple[str, ...]
    dependencies: tuple[DependencyView, ...]


async def find_package_neighbors(
    db: Database, repo_id: str, ecosystem: str, name: str
) -> PackageNeighbors | None:
    """None if no manifest depends on it."""
    if "\0" in ecosystem or "\0" in name:
        return None
    own = await _rows(db, "d.name = :text", repo_id, ecosystem, name)
    if not own:
        return None
    # The end of a JSON list; accidental matches are filtered out below.
    tail = msgspec.json.encode(name).decode() + "]"
    pattern = f"%{escape_like(tail)}"
    ending = await _rows(db, "d.parents LIKE :text ESCAPE '!'", repo_id, ecosystem, pattern)
    children = {row.name: row for row in reversed(ending) if row.parents[-1:] == (name,)}
    return PackageNeighbors(
        package_rows=tuple(own),
        manifests=tuple(sorted({row.manifest for row in own if row.direct})),
        dependents=tuple(sorted({row.parents[-1] for row in own if row.parents})),
        dependencies=tuple(sorted(children.values(), key=lambda row: row.name)),
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
