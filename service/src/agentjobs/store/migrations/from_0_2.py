"""Converts a database of 0.2.0 at its last revision to the baseline, in one transaction.

No process of the service may run meanwhile: 0.2.0 does not know the new tables.
"""

import logging
import time
from collections.abc import Mapping

from sqlalchemy import Connection

from agentjobs.store.migrations.run_statements import run_statements
from agentjobs.store.revisions import BASELINE

_STEPS: Mapping[str, str] = {
    "connections to platforms": """
        ALTER TABLE forge_connections RENAME TO platform_connections;
        DROP INDEX forge_connections_names;
        CREATE UNIQUE INDEX platform_connections_names
            ON platform_connections (organization_id, name) WHERE removed_at IS NULL;
        /*postgresql ALTER INDEX forge_connections_pkey RENAME TO platform_connections_pkey */;
        /*postgresql ALTER TABLE platform_connections
            RENAME CONSTRAINT forge_connections_organization_id_fkey
            TO platform_connections_organization_id_fkey */;
    """,
    "events of platforms": """
        ALTER TABLE forge_hints RENAME TO platform_hints;
        DROP INDEX forge_hints_age;
        DROP INDEX forge_hints_deliveries;
        DROP INDEX forge_hints_due;
        DROP INDEX forge_hints_of_connection;
        CREATE INDEX platform_hints_age ON platform_hints (received_at);
        CREATE UNIQUE INDEX platform_hints_deliveries
            ON platform_hints (connection_id, delivery_id);
        CREATE INDEX platform_hints_due ON platform_hints (due_at) WHERE due_at IS NOT NULL;
        CREATE INDEX platform_hints_of_connection ON platform_hints (connection_id, received_at);
        /*postgresql ALTER INDEX forge_hints_pkey RENAME TO platform_hints_pkey */;
        /*postgresql ALTER TABLE platform_hints RENAME CONSTRAINT forge_hints_connection_id_fkey
            TO platform_hints_connection_id_fkey */;
    """,
    "the queue of jobs": """
        CREATE TABLE job_queue (
            job_id TEXT NOT NULL PRIMARY KEY,
            organization_id TEXT NOT NULL,
            repo_id TEXT NOT NULL,
            agent TEXT NOT NULL,
            queue_order BIGINT NOT NULL,
            fence BIGINT NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_expires_at BIGINT,
            credential_hash BYTEA,
            waits_for TEXT,
            environment_key TEXT
        ) /*postgresql WITH (fillfactor = 50) */;
        CREATE UNIQUE INDEX job_queue_credential ON job_queue (credential_hash)
            WHERE credential_hash IS NOT NULL;
        CREATE INDEX job_queue_leased ON job_queue (organization_id) WHERE lease_owner IS NOT NULL;
        CREATE INDEX job_queue_waiting_for_agent ON job_queue (agent, organization_id)
            WHERE lease_owner IS NULL;
        CREATE INDEX job_queue_waiting_in_order ON job_queue (organization_id, queue_order, job_id)
            WHERE lease_owner IS NULL;
        INSERT INTO job_queue (job_id, organization_id, repo_id, agent, queue_order, fence,
                lease_owner, lease_expires_at, credential_hash, waits_for, environment_key)
            SELECT id, organization_id, repo_id, agent, queue_order, fence,
                lease_owner, lease_expires_at, credential_hash, waits_for, environment_key
            FROM jobs WHERE status NOT IN ('completed', 'failed', 'cancelled');
        DROP INDEX jobs_credential;
        DROP INDEX jobs_leased;
        DROP INDEX jobs_waiting_for_agent;
        DROP INDEX jobs_waiting_in_order;
        ALTER TABLE jobs DROP COLUMN queue_order;
        ALTER TABLE jobs DROP COLUMN fence;
        ALTER TABLE jobs DROP COLUMN lease_owner;
        ALTER TABLE jobs DROP COLUMN lease_expires_at;
        ALTER TABLE jobs DROP COLUMN credential_hash;
        ALTER TABLE jobs DROP COLUMN waits_for;
        ALTER TABLE jobs DROP COLUMN environment_key;
    """,
}
"""The statements of each step, by what it converts."""

_log = logging.getLogger(__name__)


def convert(connection: Connection) -> None:
    for subject, statements in _STEPS.items():
        started_at = time.monotonic()
        run_statements(connection, statements)
        _log.info("converted %s in %.2f s", subject, time.monotonic() - started_at)
    run_statements(connection, f"UPDATE alembic_version SET version_num = '{BASELINE}'")
