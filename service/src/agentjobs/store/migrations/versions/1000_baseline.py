"""The whole schema: the first revision of the generation that begins with 0.3.0."""

from alembic import op

from agentjobs.store.migrations.run_statements import run_statements
from agentjobs.store.revisions import MIGRATIONS

revision = "1000"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_statements(op.get_bind(), (MIGRATIONS / "baseline.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
