"""The rows of a repository in all tables that describe it, under one name for each column."""

import re
from functools import partial
from typing import Any

from agentjobs.repos.queries import INDEX_ERROR
from agentjobs.store.database import Database, Transaction

TABLES = (
    "repos r LEFT JOIN repo_index i ON i.repo_id = r.id"
    " LEFT JOIN index_queue q ON q.repo_id = r.id LEFT JOIN scan_queue c ON c.repo_id = r.id"
    " LEFT JOIN sync_queue y ON y.repo_id = r.id LEFT JOIN repo_sync s ON s.repo_id = r.id"
    " LEFT JOIN pull_numbers n ON n.repo_id = r.id"
)
_COLUMNS = {
    "index_status": ("repo_index", "status"),
    "indexed_commit": ("repo_index", "indexed_commit"),
    "line_count": ("repo_index", "line_count"),
    "languages": ("repo_index", "languages"),
    "index_done": ("repo_index", "done"),
    "index_total": ("repo_index", "total"),
    "index_error": ("repo_index", "error"),
    "index_warnings": ("repo_index", "warnings"),
    "index_fingerprint": ("repo_index", "fingerprint"),
    "dependencies_digest": ("repo_index", "dependencies_digest"),
    "configured_trigger": ("repo_index", "configured_trigger"),
    "configured_grouping": ("repo_index", "configured_grouping"),
    "index_due_at": ("index_queue", "due_at"),
    "index_lease_until": ("index_queue", "lease_until"),
    "index_failures": ("index_queue", "failures"),
    "scan_due_at": ("scan_queue", "due_at"),
    "sync_due_at": ("sync_queue", "due_at"),
    "sync_lease_until": ("sync_queue", "lease_until"),
    "sync_failures": ("sync_queue", "failures"),
    "told_at": ("sync_queue", "requested_at"),
    "sync_error": ("repo_sync", "error"),
    "synced_at": ("repo_sync", "synced_at"),
    "whole_due_at": ("repo_sync", "full_due_at"),
    "hook_seen_at": ("repo_sync", "hook_seen_at"),
}
_ALIASES = {
    "repo_index": "i",
    "index_queue": "q",
    "scan_queue": "c",
    "sync_queue": "y",
    "repo_sync": "s",
}
_DEFAULTS = {"index_status": "'indexing'", "index_failures": "0", "sync_failures": "0"}
EARLIER_COLUMNS = "r.*, " + ", ".join(
    f"COALESCE({_ALIASES[table]}.{column}, {_DEFAULTS[name]}) AS {name}"
    if name in _DEFAULTS
    else f"{_ALIASES[table]}.{column} AS {name}"
    for name, (table, column) in _COLUMNS.items()
)
_SHOWN_COLUMNS = EARLIER_COLUMNS.replace("i.error AS", f"{INDEX_ERROR} AS")
SELECT = f"SELECT {_SHOWN_COLUMNS} FROM {TABLES}"
"""Its rows have every column; `r` is the table `repos`."""
EARLIER_COLUMNS += ", n.last_number + 1 AS next_pull_number"


async def update_repos(
    tx: Transaction, assignments: str, where: str = "TRUE", **parameters: Any
) -> None:
    """Sets columns of any of the tables, in the repositories `r` that satisfy the condition."""
    for assignment in re.split(r", (?=\w+ = )", assignments):
        name, value = assignment.split(" = ", 1)
        await _set(tx, name, value, where, parameters)


async def _set(
    tx: Transaction, name: str, value: str, where: str, parameters: dict[str, Any]
) -> None:
    used = {
        key: parameter
        for key, parameter in parameters.items()
        if re.search(rf":{key}\b", f"{value} {where}")
    }
    selected = f"(SELECT r.id FROM repos r WHERE {where})"
    if name not in _COLUMNS:
        await tx.execute(f"UPDATE repos SET {name} = {value} WHERE id IN {selected}", **used)
        return
    table, column = _COLUMNS[name]
    of_where = {key: used[key] for key in used if re.search(rf":{key}\b", where)}
    await tx.execute(
        f"INSERT INTO {table} (repo_id) SELECT r.id FROM repos r WHERE {where}"
        " ON CONFLICT (repo_id) DO NOTHING",
        **of_where,
    )
    await tx.execute(f"UPDATE {table} SET {column} = {value} WHERE repo_id IN {selected}", **used)


async def write_repos(
    db: Database, assignments: str, where: str = "TRUE", **parameters: Any
) -> None:
    await db.transact(partial(update_repos, **parameters), assignments, where)
