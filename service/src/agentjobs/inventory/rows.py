"""Stores the result of an index: `repo_index`, `dependencies` and `repo_graphs`.

Does not know when a repository is indexed, or how.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec

from agentjobs.inventory.index.wire import Result
from agentjobs.repos.queues import finish_index, request_scan
from agentjobs.repos.rows import correct_head
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute
from agentjobs.store.insert_statement import insert_statement
from agentjobs_dependencies.index.analysis import fingerprint
from agentjobs_dependencies.model import Dependency, IndexWarning
from agentjobs_dependencies.purl import format_purl
from agentjobs_runtime.repo_configuration import (
    DEFAULT_GROUPING,
    FILE_NAME,
    Configuration,
    ConfigurationError,
    parse_configuration,
)

# More rows in one transaction would block other writers for too long.
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
    "fixture": "BOOLEAN",
    "imported": "TEXT",
    "managed_by": "TEXT",
}
_FIELDS = tuple(field.name for field in fields(Dependency))
_UPSERT = insert_statement("dependencies", _COLUMNS, key=("repo_id", "position"))


class IndexRows(msgspec.Struct, frozen=True):
    """`dependencies` is None if they are unchanged since the stored index."""

    repo: Mapping[str, Any]
    dependencies: Sequence[Mapping[str, Any]] | None
    graph: bytes


def prepare(repo_id: str, result: Result) -> IndexRows:
    configuration, warning = _configuration(result.configuration)
    grouping = configuration.fixes.group
    warnings = result.warnings if warning is None else (warning, *result.warnings)
    repo = {
        "line_count": result.line_count,
        "files": result.file_count,
        "languages": msgspec.json.encode(result.languages).decode(),
        "warnings": msgspec.json.encode(warnings).decode(),
        "fingerprint": fingerprint(),
        "dependencies_digest": result.dependencies_digest,
        "configured_trigger": configuration.auto_trigger_on_cve_severity,
        "configured_grouping": None if grouping == DEFAULT_GROUPING else grouping,
    }
    if result.dependencies is None:
        return IndexRows(repo, None, result.graph)
    rows = [_row(repo_id, *numbered) for numbered in enumerate(result.dependencies)]
    return IndexRows(repo, rows, result.graph)


async def store_in_batches(db: Database, repo_id: str, rows: IndexRows) -> IndexRows:
    """Store many dependencies in several transactions, so that other writers are not blocked.

    Returns the rows that are left to store. Clears the digest first: until `store_result`, the
    stored dependencies may be incomplete.
    """
    dependencies = rows.dependencies or ()
    if len(dependencies) <= ROWS_AT_ONCE:
        return rows
    clear = "UPDATE repo_index SET dependencies_digest = NULL WHERE repo_id = :id"
    await db.transact(execute, clear, id=repo_id)
    for start in range(0, len(dependencies), ROWS_AT_ONCE):
        await db.transact(_UPSERT.run, dependencies[start : start + ROWS_AT_ONCE])
    while await db.transact(_delete_batch_from, repo_id, len(dependencies)):
        pass
    return msgspec.structs.replace(rows, dependencies=None)


async def store_result(
    tx: Transaction, repo_id: str, claimed_head: str, commit: str, rows: IndexRows
) -> None:
    connected = await tx.fetch_one(
        "SELECT 1 FROM repos WHERE id = :id AND disconnected_at IS NULL"
        " /*postgresql FOR NO KEY UPDATE */",
        id=repo_id,
    )
    if connected is None:
        return
    await tx.execute(
        "UPDATE repo_index SET status = 'ready', line_count = :line_count,"
        " languages = :languages, warnings = :warnings,"
        " fingerprint = :fingerprint, dependencies_digest = :dependencies_digest,"
        " configured_trigger = :configured_trigger, configured_grouping = :configured_grouping,"
        " indexed_commit = :commit, error = NULL, done = :files, total = :files"
        " WHERE repo_id = :id",
        id=repo_id,
        commit=commit,
        **rows.repo,
    )
    await finish_index(tx, repo_id, claimed_head)
    await correct_head(tx, repo_id, claimed_head, commit)
    await _store_graph(tx, repo_id, commit, rows.graph)
    if rows.dependencies is not None:
        await _store_dependencies(tx, repo_id, rows.dependencies)
    await tx.invalidate("repos")
    await request_scan(tx, repo_id)


async def store_unchanged(tx: Transaction, repo_id: str, claimed_head: str, commit: str) -> None:
    """Clear the due time of a repository whose stored index is already that of the commit."""
    await tx.execute(
        "UPDATE repo_index SET status = 'ready', error = NULL WHERE repo_id = :id", id=repo_id
    )
    await finish_index(tx, repo_id, claimed_head)
    await correct_head(tx, repo_id, claimed_head, commit)
    await tx.invalidate("repos")


async def _store_graph(tx: Transaction, repo_id: str, commit: str, data: bytes) -> None:
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
    await _UPSERT.run(tx, rows)


async def _delete_batch_from(tx: Transaction, repo_id: str, position: int) -> int:
    """Delete a batch of rows from `position` on, and return how many were deleted."""
    return await tx.execute(
        "DELETE FROM dependencies WHERE repo_id = :repo_id AND position IN (SELECT position"
        " FROM dependencies WHERE repo_id = :repo_id AND position >= :position LIMIT :limit)",
        repo_id=repo_id,
        position=position,
        limit=ROWS_AT_ONCE,
    )


def _row(repo_id: str, position: int, package: Dependency) -> dict[str, Any]:
    return {
        **{name: getattr(package, name) for name in _FIELDS},
        "repo_id": repo_id,
        "position": position,
        "parents": msgspec.json.encode(package.parents).decode(),
        "purl": format_purl(package.ecosystem, package.name, package.version),
    }


def _configuration(content: bytes | None) -> tuple[Configuration, IndexWarning | None]:
    """The contents of `.agentjobs.toml`, or the defaults and a warning if the file is invalid."""
    try:
        return parse_configuration(content or b""), None
    except ConfigurationError as error:
        reason = str(error).removeprefix(f"{FILE_NAME}: ")
        return Configuration(), IndexWarning(FILE_NAME, reason)
