"""Secrets, budgets and spending; prompts, verification and readiness."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[str]:
    text = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, sa.Text, nullable=null, server_default=text)


def _number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[int]:
    text = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=text)


def upgrade() -> None:
    _create_secrets()
    _create_spending()
    # Money is counted in billionths of a US dollar, so that sums are exact.
    op.add_column("organizations", _number("daily_budget_nanousd", null=True))
    op.add_column("organizations", _number("job_budget_nanousd", null=True))
    op.add_column("repos", _text("lifted_paths", default="[]"))
    op.add_column("jobs", _text("prompt", null=True))
    op.add_column("jobs", _text("verification", null=True))
    # Why this worker cannot run an agent, by the agent's id.
    op.add_column("workers", _text("unready", default="{}"))


def _create_secrets() -> None:
    op.create_table(
        "secrets",
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        _text("key_id"),
        _number("created_at"),
        _number("updated_at"),
    )


def _create_spending() -> None:
    op.create_table(
        "job_spending",
        sa.Column("job_id", sa.Text, primary_key=True),
        _number("spent_nanousd", default=0),
        _number("input_tokens", default=0),
        _number("output_tokens", default=0),
        _number("requests", default=0),
    )
    op.create_table(
        "daily_spending",
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), primary_key=True),
        # Days since the epoch, in UTC.
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        _number("spent_nanousd", default=0),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
