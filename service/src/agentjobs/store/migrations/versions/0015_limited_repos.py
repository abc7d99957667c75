"""An index of the repositories whose concurrent jobs are limited."""

from agentjobs.store.migrations.indexes import create_index

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index("repos_limited", "repos", ["id"], where="max_concurrent_jobs IS NOT NULL")


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
