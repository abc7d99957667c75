"""Dependencies together with what is known against them, as the last scan found it."""

from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.advisories.exposure import FoundAdvisory
from agentjobs.advisories.severity import LEVELS
from agentjobs.inventory.dependencies import DependencyView
from agentjobs.inventory.model import Scope
from agentjobs.store.database import Database, Row

_decode_advisories = msgspec.json.Decoder(tuple[FoundAdvisory, ...]).decode
_RANKS = {level: rank for rank, level in enumerate(reversed(LEVELS))}
_COLUMNS = (
    "manifest, ecosystem, name, version, advisory_id, advisory_ids, severity, score, summary,"
    " fix_version, fix_reason"
)


class DependencyAdvisory(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `fix_version` ends all of the package; without one `fix_reason` says why."""

    id: str
    aliases: tuple[str, ...]
    severity: str
    score: float | None
    summary: str
    fix_version: str | None
    fix_reason: str


class DependencyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency as programs are told of it."""

    purl: str
    ecosystem: str
    name: str
    version: str | None
    requirement: str
    direct: bool
    scope: Scope
    manifest: str
    parents: tuple[str, ...]
    advisories: Sequence[DependencyAdvisory]


def dependency_document(
    dependency: DependencyView, advisories: Sequence[DependencyAdvisory]
) -> DependencyDocument:
    return DependencyDocument(
        purl=dependency.purl,
        ecosystem=dependency.ecosystem,
        name=dependency.name,
        version=dependency.version,
        requirement=dependency.requirement,
        direct=dependency.direct,
        scope=dependency.scope,
        manifest=dependency.manifest,
        parents=dependency.parents,
        advisories=advisories,
    )


async def advisories_of(
    db: Database, repo_id: str, dependencies: Iterable[DependencyView]
) -> dict[int, list[DependencyAdvisory]]:
    """By position, the worst first; without those that nothing is known against."""
    positions: dict[tuple[str, ...], list[int]] = {}
    for one in dependencies:
        if one.version is not None:
            key = (one.manifest, one.ecosystem, one.name, one.version)
            positions.setdefault(key, []).append(one.position)
    if not positions:
        return {}
    rows = await db.fetch_all(
        f"SELECT {_COLUMNS} FROM findings WHERE repo_id = :repo_id"
        " AND name IN (SELECT value FROM each(:names))",
        repo_id=repo_id,
        names=sorted({name for _, _, name, _ in positions}),
    )
    found: dict[int, list[DependencyAdvisory]] = {}
    for row in sorted(rows, key=_rank):
        key = (row["manifest"], row["ecosystem"], row["name"], row["version"])
        for position in positions.get(key, ()):
            found.setdefault(position, []).append(_advisory(row))
    return found


def _rank(row: Row) -> tuple[int, str]:
    return _RANKS[row["severity"]], row["advisory_id"]


def _advisory(row: Row) -> DependencyAdvisory:
    members = _decode_advisories(row["advisory_ids"])
    names = {name for one in members for name in (one.id, *one.aliases)}
    return DependencyAdvisory(
        id=row["advisory_id"],
        aliases=tuple(sorted(names - {row["advisory_id"]})),
        severity=row["severity"],
        score=row["score"],
        summary=row["summary"],
        fix_version=row["fix_version"],
        fix_reason=row["fix_reason"],
    )
