"""A platform with a repository and a pull request, and a tracker, written directly to the store.

Nothing listens at the platform's URL.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agentjobs.organizations.sealing import SealingKeys
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.settings import Settings

# Nested groups, as on GitLab.
PLATFORM_REPO = "group/team/warehouse"
# Loopback, which the service refuses to reach.
_URL = "https://127.0.0.1:9"


def write_platform(data_dir: Path) -> tuple[str, str]:
    """Returns the IDs of the connection and of the tracker."""
    keys = SealingKeys.load(Settings(data_dir=str(data_dir)))
    with closing(sqlite3.connect(data_dir / "agentjobs.db", timeout=30)) as database, database:
        (organization_id,) = database.execute("SELECT organization_id FROM repos").fetchone()
        connection_id, tracker_id, repo_id = new_id("fcn"), new_id("trk"), new_id("repo")
        token = keys.seal("token", "forge", organization_id, connection_id)
        hook = keys.seal("secret", "forge-hook", organization_id, connection_id)
        shared_columns: dict[str, Any] = {
            "organization_id": organization_id,
            "created_at": now_ms(),
        }
        connection = {
            **shared_columns,
            "id": connection_id,
            "platform": "gitlab",
            "kind": "token",
            "name": "gitlab",
            "url": _URL,
            "account": "agentjobs-bot",
            "error": "It is away; try again later.",
            "sealed": token.data,
            "key_id": token.key_id,
            "hook_sealed": hook.data,
            "hook_key_id": hook.key_id,
            "checked_at": now_ms(),
            "updated_at": now_ms(),
        }
        _insert(database, "platform_connections", connection)
        repo = {
            **shared_columns,
            "id": repo_id,
            "full_name": PLATFORM_REPO,
            "platform": "gitlab",
            "source": "",
            "default_branch": "main",
            "head_commit": "",
            "connection_id": connection_id,
            "external_id": "7",
        }
        _insert(database, "repos", repo)
        error = "It is not there any more, or not shown to this connection."
        _insert(database, "repo_sync", {"repo_id": repo_id, "error": error})
        _insert(database, "sync_queue", {"repo_id": repo_id, "failures": 3})
        pull = {
            "repo_id": repo_id,
            "number": 1,
            "title": "Count the shelves",
            "body": "",
            "head_branch": "agentjobs/note-taker/1",
            "base_branch": "main",
            "state": "open",
            "head_commit": "a" * 40,
            "base_commit": "b" * 40,
            "draft": True,
            "created_at": now_ms(),
            "url": f"{_URL}/{PLATFORM_REPO}/-/merge_requests/1",
        }
        _insert(database, "pulls", pull)
        tracker = {"id": tracker_id, "kind": "jira", "name": "jira", "error": "It is closed."}
        jira = {"url": "https://jira.example.com", "checked_at": now_ms(), "sealed": b""}
        _insert(database, "trackers", {**shared_columns, **tracker, **jira})
    return connection_id, tracker_id


def _insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    placeholders = ", ".join(f":{name}" for name in row)
    database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({placeholders})", row)
