"""What an index found, as rows: lines, languages, warnings, dependencies, the graph.

Knows the tables; refuses to know when a repository is indexed, or how.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.clock import now_ms
from agentjobs.inventory.index.analysis import fingerprint
from agentjobs.inventory.index.wire import Result
from agentjobs.inventory.model import Dependency, IndexWarning
from agentjobs.repos.configuration import FILE_NAME, ConfigurationError, parse_configuration
from agentjobs.store.batch_insert import ManyRows
from agentjobs.store.database import Database, Transaction

# What one transaction may take; more would keep others waiting.
ROWS_AT_ONCE = 1_000

_COLUMNS = {
    "repo_id": "TEXT",
    "position": "BIGINT",
    "ecosystem": "TEXT",
    "name": "TEXT",
    "version": "TEXT",
    "requirement": "TEXT",
    "direct": "BOOLEAN",
    "scope": "TEXT",
    "manifest": "TEXT",
    "parents": "TEXT",
    "purl": "TEXT",
}
_KEY = ("repo_id", "position")
_INTO = f"INSERT INTO dependencies ({', '.join(_COLUMNS)})"
_OVER = f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in _COLUMNS if name not in _KEY
)
_PUT = ManyRows(
    _COLUMNS,
    one=f"{_INTO} VALUES ({', '.join(':' + name for name in _COLUMNS)}) {_OVER}",
    many=f"{_INTO} SELECT {', '.join(_COLUMNS)} FROM {{rows}} {_OVER}",
)


class IndexRows(msgspec.Struct, frozen=True):
    """None stands for what is the same as what is stored."""

    repo: Mapping[str, Any]
    dependencies: Sequence[Mapping[str, Any]] | None
    graph: bytes | None


def prepare(repo_id: str, result: Result) -> IndexRows:
    trigger, warning = _configured_trigger(result.configuration)
    warnings = result.warnings if warning is None else (warning, *result.warnings)
    repo = {
        "line_count": result.line_count,
        "files": result.file_count,
        "languages": msgspec.json.encode(result.languages).decode(),
        "index_warnings": msgspec.json.encode(warnings).decode(),
        "index_fingerprint": fingerprint(),
        "dependencies_digest": result.dependencies_digest,
        "configured_trigger": trigger,
    }
    if result.dependencies is None:
        return IndexRows(repo, None, result.graph)
    pairs = zip(result.dependencies, result.purls, strict=True)
    rows = [_row(repo_id, at, one, purl) for at, (one, purl) in enumerate(pairs)]
    return IndexRows(repo, rows, result.graph)


async def store_ahead(db: Database, repo_id: str, rows: IndexRows) -> IndexRows:
    """Writes many dependencies in portions, between which others have their turn; what is left
    to store. Until that is done nobody takes them for known."""
    every = rows.dependencies or ()
    if len(every) <= ROWS_AT_ONCE:
        return rows
    await db.transact(_forget_digest, repo_id)
    for start in range(0, len(every), ROWS_AT_ONCE):
        await db.transact(_PUT.run, every[start : start + ROWS_AT_ONCE])
    while await db.transact(_drop_from, repo_id, len(every)):
        pass
    return msgspec.structs.replace(rows, dependencies=None)


async def store_result(
    tx: Transaction, repo_id: str, seen_head: str, commit: str, rows: IndexRows
) -> None:
    # A head that moved while we read makes the repository due again at once. One that did not
    # is set to what was read: a crash between a push and its note left it behind.
    stored = await tx.execute(
        "UPDATE repos SET index_status = 'ready', line_count = :line_count,"
        " languages = :languages, index_warnings = :index_warnings,"
        " index_fingerprint = :index_fingerprint, dependencies_digest = :dependencies_digest,"
        " configured_trigger = :configured_trigger, scan_due_at = :now,"
        " indexed_commit = :commit, index_error = NULL, index_failures = 0,"
        " index_done = :files, index_total = :files,"
        " head_commit = CASE WHEN head_commit = :seen THEN :commit ELSE head_commit END,"
        " index_due_at = CASE WHEN head_commit = :seen THEN NULL ELSE CAST(:now AS BIGINT) END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        seen=seen_head,
        commit=commit,
        now=now_ms(),
        **rows.repo,
    )
    if not stored:
        return
    await _store_graph(tx, repo_id, commit, rows.graph)
    if rows.dependencies is not None:
        await _store_dependencies(tx, repo_id, rows.dependencies)
    await tx.invalidate("repos")
    tx.announce("scan")


async def store_unchanged(tx: Transaction, repo_id: str, seen_head: str, commit: str) -> None:
    """The index that is stored is the one of this commit."""
    await tx.execute(
        "UPDATE repos SET index_status = 'ready', index_error = NULL, index_failures = 0,"
        " head_commit = CASE WHEN head_commit = :seen THEN :commit ELSE head_commit END,"
        " index_due_at = CASE WHEN head_commit = :seen THEN NULL ELSE CAST(:now AS BIGINT) END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        seen=seen_head,
        commit=commit,
        now=now_ms(),
    )
    await tx.invalidate("repos")


async def _store_graph(tx: Transaction, repo_id: str, commit: str, data: bytes | None) -> None:
    if data is None:
        await tx.execute(
            "UPDATE repo_graphs SET commit_id = :commit WHERE repo_id = :repo_id",
            repo_id=repo_id,
            commit=commit,
        )
        return
    await tx.execute(
        "INSERT INTO repo_graphs (repo_id, commit_id, data) VALUES (:repo_id, :commit, :data)"
        " ON CONFLICT (repo_id) DO UPDATE SET commit_id = excluded.commit_id, data = excluded.data",
        repo_id=repo_id,
        commit=commit,
        data=data,
    )


async def _store_dependencies(
    tx: Transaction, repo_id: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    await tx.execute("DELETE FROM dependencies WHERE repo_id = :repo_id", repo_id=repo_id)
    await _PUT.run(tx, rows)


async def _forget_digest(tx: Transaction, repo_id: str) -> None:
    await tx.execute("UPDATE repos SET dependencies_digest = NULL WHERE id = :id", id=repo_id)


async def _drop_from(tx: Transaction, repo_id: str, position: int) -> int:
    """Some of those that are there no more; how many."""
    return await tx.execute(
        "DELETE FROM dependencies WHERE repo_id = :repo_id AND position IN (SELECT position"
        " FROM dependencies WHERE repo_id = :repo_id AND position >= :position LIMIT :limit)",
        repo_id=repo_id,
        position=position,
        limit=ROWS_AT_ONCE,
    )


def _row(repo_id: str, position: int, one: Dependency, purl: str) -> dict[str, Any]:
    return {
        "repo_id": repo_id,
        "position": position,
        "ecosystem": one.ecosystem,
        "name": one.name,
        "version": one.version,
        "requirement": one.requirement,
        "direct": one.direct,
        "scope": one.scope,
        "manifest": one.manifest,
        "parents": msgspec.json.encode(one.parents).decode(),
        "purl": purl,
    }


def _configured_trigger(content: bytes | None) -> tuple[str | None, IndexWarning | None]:
    """What the repository's own file says, or why it says nothing."""
    if content is None:
        return None, None
    try:
        return parse_configuration(content).auto_trigger_on_cve_severity, None
    except ConfigurationError as error:
        return None, IndexWarning(FILE_NAME, str(error).removeprefix(f"{FILE_NAME}: "))
