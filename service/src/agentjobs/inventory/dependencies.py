"""Queries for the dependencies of an indexed repository: lists, counts, parents."""

from dataclasses import dataclass, fields
from typing import Any

import msgspec

from agentjobs.repos.queries import RepoView, get_repo
from agentjobs.store.database import Database, Row
from agentjobs_dependencies.model import Dependency, Imported
from agentjobs_runtime.problems import Problem

_INDEXING_RETRY_SECONDS = 5
_decode_parents = msgspec.json.Decoder(tuple[str, ...]).decode

# Ignores case only for a to z, as SQLite does, so that both engines agree.
_HAS_TEXT = (
    "/*sqlite INSTR(LOWER(d.name), :text) */"
    '/*postgresql STRPOS(LOWER(d.name COLLATE "C"), :text) */ > 0'
)
_IS_VULNERABLE = (
    "EXISTS (SELECT 1 FROM findings f WHERE f.repo_id = d.repo_id AND f.manifest = d.manifest"
    " AND f.ecosystem = d.ecosystem AND f.name = d.name AND f.version = d.version)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyView(Dependency):
    """A stored dependency; `position` is its place in the repository's list."""

    position: int
    purl: str


_VIEW_FIELDS = tuple(field.name for field in fields(DependencyView))


class DependencyCounts(msgspec.Struct, frozen=True):
    """Without the dependencies of fixtures, which `fixtures` counts. `by_ecosystem` is sorted by
    count, largest first."""

    total: int
    direct: int
    by_ecosystem: dict[str, int]
    fixtures: int = 0


async def find_indexed_repo(db: Database, organization_id: str, repo_id: str) -> RepoView:
    repo = await get_repo(db, organization_id, repo_id)
    check_indexed(repo)
    return repo


def check_indexed(repo: RepoView) -> None:
    if repo.index_status != "ready":
        raise Problem(
            "repo_indexing",
            f"The repository {repo.full_name!r} is still being indexed; "
            "try again once it is shown as ready.",
            retry_after_seconds=_INDEXING_RETRY_SECONDS,
        )


async def list_dependencies(
    db: Database,
    repo_id: str,
    *,
    search: str = "",
    ecosystem: str | None = None,
    direct: bool | None = None,
    manifest: str | None = None,
    vulnerable: bool = False,
    fixture: bool | None = None,
    imported: Imported | None = None,
    limit: int | None = None,
    after: int | None = None,
) -> list[DependencyView]:
    """In the order of the index; `after` is the last position of the previous page.

    `search` matches a part of the name, ignoring case. `vulnerable` selects those with findings.
    """
    text = search.strip().encode(errors="replace").lower().decode()
    filters: dict[str, Any] = {
        "ecosystem": ecosystem,
        "direct": direct,
        "manifest": manifest,
        "fixture": fixture,
        "imported": imported,
    }
    if any("\0" in value for value in (text, ecosystem or "", manifest or "")):
        # No name contains NUL, and PostgreSQL would reject the query.
        return []
    conditions = [
        "d.repo_id = :repo_id AND d.position > :after",
        *(f"d.{name} = :{name}" for name, value in filters.items() if value is not None),
        *([_HAS_TEXT] if text else []),
        *([_IS_VULNERABLE] if vulnerable else []),
    ]
    rows = await db.fetch_all(
        f"SELECT d.* FROM dependencies d WHERE {' AND '.join(conditions)}"
        " ORDER BY d.position LIMIT :limit",
        repo_id=repo_id,
        after=-1 if after is None else after,
        limit=2**62 if limit is None else limit,
        text=text,
        **filters,
    )
    return [dependency_view(row) for row in rows]


async def count_dependencies(db: Database, repo_id: str) -> DependencyCounts:
    rows = await db.fetch_all(
        "SELECT ecosystem, fixture, COUNT(*) AS total,"
        " COUNT(CASE WHEN direct THEN 1 END) AS direct"
        " FROM dependencies WHERE repo_id = :repo_id GROUP BY ecosystem, fixture"
        " ORDER BY COUNT(*) DESC, ecosystem",
        repo_id=repo_id,
    )
    own = [row for row in rows if not row["fixture"]]
    return DependencyCounts(
        total=sum(row["total"] for row in own),
        direct=sum(row["direct"] for row in own),
        by_ecosystem={row["ecosystem"]: row["total"] for row in own},
        fixtures=sum(row["total"] for row in rows if row["fixture"]),
    )


def dependency_view(row: Row) -> DependencyView:
    values = {name: row[name] for name in _VIEW_FIELDS}
    flags = {name: bool(row[name]) for name in ("direct", "fixture")}
    return DependencyView(**values | flags | {"parents": _decode_parents(row["parents"])})
