"""Indexes to find the organizations that a worker can serve, and their jobs in order."""

from agentjobs.store.migrations.indexes import create_index, drop_index

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_WAITING = "status = 'queued' AND lease_owner IS NULL"


def upgrade() -> None:
    columns = ["organization_id", "queue_order", "id"]
    create_index("jobs_waiting_in_order", "jobs", columns, where=_WAITING)
    create_index("jobs_waiting_for_agent", "jobs", ["agent", "organization_id"], where=_WAITING)
    drop_index("jobs_waiting", "jobs")


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
