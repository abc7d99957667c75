"""Converts a database of 0.2.0 at its last revision to the baseline, in one transaction.

No process of the service may run meanwhile: 0.2.0 does not know the new tables.
"""

import logging
import re
import time
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from agentjobs.store.migrations.run_statements import run_statements
from agentjobs.store.revisions import BASELINE, MIGRATIONS


def _create(table: str) -> str:
    """The statements of the baseline."""
    start = re.compile(rf"^CREATE (TABLE {table}|(UNIQUE )?INDEX \w+ ON {table}) ", re.MULTILINE)
    statements = (MIGRATIONS / "baseline.sql").read_text().split(";\n")
    return "".join(f"{part};\n" for part in statements if start.search(part))


def _drop_columns(table: str, *columns: str) -> str:
    return "".join(f"ALTER TABLE {table} DROP COLUMN {column};\n" for column in columns)


_STEPS: Mapping[str, Sequence[str]] = {
    "connections to platforms": (
        """
        ALTER TABLE forge_connections RENAME TO platform_connections;
        DROP INDEX forge_connections_names;
        CREATE UNIQUE INDEX platform_connections_names
            ON platform_connections (organization_id, name) WHERE removed_at IS NULL;
        /*postgresql ALTER INDEX forge_connections_pkey RENAME TO platform_connections_pkey */;
        /*postgresql ALTER TABLE platform_connections
            RENAME CONSTRAINT forge_connections_organization_id_fkey
            TO platform_connections_organization_id_fkey */;
        """,
    ),
    "events of platforms": (
        _create("platform_hints"),
        """
        INSERT INTO platform_hints (id, connection_id, delivery_id, received_at)
            SELECT id, connection_id, delivery_id, received_at FROM forge_hints;
        DROP TABLE forge_hints;
        """,
    ),
    "the queue of jobs": (
        _create("job_queue"),
        """
        INSERT INTO job_queue (job_id, organization_id, repo_id, agent, queue_order, fence,
            lease_owner, lease_expires_at, credential_hash, waits_for, environment_key)
            SELECT id, organization_id, repo_id, agent, queue_order, fence,
                lease_owner, lease_expires_at, credential_hash, waits_for, environment_key
            FROM jobs WHERE status NOT IN ('completed', 'failed', 'cancelled');
        UPDATE job_queue SET lease_owner = 'service', lease_expires_at = NULL
            WHERE job_id IN (SELECT job_id FROM kept_work);
        UPDATE jobs SET status = 'running'
            WHERE status = 'queued' AND id IN (SELECT job_id FROM kept_work);
        DROP INDEX jobs_credential;
        DROP INDEX jobs_leased;
        DROP INDEX jobs_waiting_for_agent;
        DROP INDEX jobs_waiting_in_order;
        """,
        _drop_columns(
            "jobs",
            *("queue_order", "fence", "lease_owner", "lease_expires_at", "credential_hash"),
            *("waits_for", "environment_key"),
        ),
    ),
    "claims of organizations": (
        _create("claimed_organizations"),
        """
        INSERT INTO claimed_organizations SELECT id, last_claimed_at FROM organizations
            WHERE last_claimed_at IS NOT NULL;
        """,
        _drop_columns("organizations", "last_claimed_at"),
    ),
    "pull requests": (
        """
        DROP INDEX pulls_told;
        ALTER TABLE pulls RENAME COLUMN asked_at TO synced_at;
        ALTER TABLE pulls RENAME COLUMN told_at TO change_reported_at;
        ALTER TABLE pulls RENAME COLUMN missing_looks TO not_found_count;
        CREATE INDEX pulls_changed ON pulls (repo_id) WHERE change_reported_at IS NOT NULL;
        """,
    ),
    "numbers of pull requests": (
        _create("pull_numbers"),
        "INSERT INTO pull_numbers SELECT id, next_pull_number - 1 FROM repos",
        _drop_columns("repos", "next_pull_number"),
    ),
    "indexes": (
        _create("index_queue"),
        """
        INSERT INTO index_queue
            SELECT id, index_due_at, index_lease_until, index_failures FROM repos;
        DROP INDEX repos_index_due;
        """,
        _create("repo_index"),
        """
        INSERT INTO repo_index (repo_id, status, indexed_commit, done, total, error, line_count,
            languages, warnings, fingerprint, dependencies_digest, configured_trigger,
            configured_grouping) SELECT id, index_status, indexed_commit, index_done, index_total,
            CASE WHEN head_commit <> '' THEN index_error END, line_count, languages, index_warnings,
            index_fingerprint, dependencies_digest, configured_trigger, configured_grouping
            FROM repos
        """,
        _drop_columns(
            "repos",
            *("index_due_at", "index_lease_until", "index_failures", "index_status"),
            *("indexed_commit", "index_done", "index_total", "index_error", "line_count"),
            *("languages", "index_warnings", "index_fingerprint", "dependencies_digest"),
            *("configured_trigger", "configured_grouping"),
        ),
    ),
    "syncs with platforms": (
        _create("sync_queue"),
        """
        INSERT INTO sync_queue SELECT id, sync_due_at, sync_lease_until, sync_failures, told_at
            FROM repos WHERE connection_id IS NOT NULL;
        DROP INDEX repos_sync_due;
        """,
        _create("repo_sync"),
        """
        INSERT INTO repo_sync SELECT id, sync_error, synced_at, whole_due_at, hook_seen_at
            FROM repos WHERE connection_id IS NOT NULL
        """,
        _drop_columns(
            "repos",
            *("sync_due_at", "sync_lease_until", "sync_failures", "told_at", "sync_error"),
            *("synced_at", "whole_due_at", "hook_seen_at"),
        ),
    ),
    # Nothing showed when the last scan was, and why it failed.
    "due scans": (
        _create("scan_queue"),
        """
        INSERT INTO scan_queue SELECT id, scan_due_at FROM repos;
        DROP INDEX repos_scan_due;
        """,
        _drop_columns("repos", "scan_due_at", "scanned_at", "scan_error"),
    ),
}
"""The statements of each step, by what it converts."""

_log = logging.getLogger(__name__)


def convert(connection: Connection) -> None:
    for subject, statements in _STEPS.items():
        started_at = time.monotonic()
        for script in statements:
            run_statements(connection, script)
        _log.info("converted %s in %.2f s", subject, time.monotonic() - started_at)
    run_statements(connection, f"UPDATE alembic_version SET version_num = '{BASELINE}'")
