"""The first tables: organizations, keys, repositories, jobs, events, logs, pulls, workers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.Text, primary_key=True)


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null)


def _number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[int]:
    text = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=text)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())


def _bytes(name: str, *, null: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=null)


def _organization() -> sa.Column[str]:
    return sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False)


def _partial_index(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )


def upgrade() -> None:
    _create_organizations()
    _create_repos()
    _create_jobs()
    _create_pulls()
    _create_workers()


def _create_organizations() -> None:
    op.create_table(
        "organizations",
        _id(),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        _text("plan"),
        _number("last_claimed_at", null=True),
        _number("created_at"),
    )
    op.create_table(
        "api_keys",
        _id(),
        _organization(),
        _text("name"),
        _text("hint"),
        sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
        _text("scope"),
        _flag("git_write"),
        _number("created_at"),
        _number("expires_at", null=True),
        _number("revoked_at", null=True),
        _number("last_used_at", null=True),
    )


def _create_repos() -> None:
    op.create_table(
        "repos",
        _id(),
        _organization(),
        _text("full_name"),
        _text("platform"),
        _text("source"),
        _text("default_branch"),
        _text("head_commit"),
        _text("index_status"),
        _number("line_count", default=0),
        _text("indexed_commit", null=True),
        _number("index_done", default=0),
        _number("index_total", null=True),
        _text("index_error", null=True),
        _number("index_failures", default=0),
        _number("index_due_at", null=True),
        _number("next_pull_number", default=1),
        _number("created_at"),
        _number("disconnected_at", null=True),
    )
    connected = "disconnected_at IS NULL"
    _partial_index(
        "repos_connected", "repos", ["organization_id", "full_name"], connected, unique=True
    )
    _partial_index("repos_index_due", "repos", ["index_due_at"], "index_due_at IS NOT NULL")


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        _id(),
        _organization(),
        sa.Column("repo_id", sa.Text, sa.ForeignKey("repos.id"), nullable=False),
        _text("repo"),
        _text("agent"),
        _text("ticket_id", null=True),
        _text("config_override"),
        _text("status"),
        _number("attempt", default=0),
        _number("lost_workers", default=0),
        _number("fence", default=0),
        _text("lease_owner", null=True),
        _number("lease_expires_at", null=True),
        _bytes("credential_hash", null=True),
        _number("cancel_requested_at", null=True),
        _number("created_at"),
        _number("queued_at"),
        _number("started_at", null=True),
        _number("completed_at", null=True),
        _text("base_commit", null=True),
        _text("branch"),
        _text("head_commit", null=True),
        _text("pr_url", null=True),
        _number("pr_number", null=True),
        _text("error_code", null=True),
        _text("error_message", null=True),
        _text("usage", null=True),
        _number("last_sequence", default=0),
    )
    op.create_index("jobs_of_organization", "jobs", ["organization_id", "id"])
    waiting = "status = 'queued' AND lease_owner IS NULL"
    _partial_index("jobs_waiting", "jobs", ["organization_id", "id"], waiting)
    _partial_index("jobs_leased", "jobs", ["organization_id"], "lease_owner IS NOT NULL")
    _partial_index("jobs_finished", "jobs", ["completed_at"], "completed_at IS NOT NULL")
    held = "credential_hash IS NOT NULL"
    _partial_index("jobs_credential", "jobs", ["credential_hash"], held, unique=True)

    op.create_table(
        "events",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        _text("event"),
        _bytes("body"),
        _number("created_at"),
    )
    op.create_table(
        "job_logs",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        _number("created_at"),
        _text("text"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("organization_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        _bytes("body_hash"),
        _bytes("response"),
        _number("created_at"),
    )
    op.create_index("idempotency_keys_age", "idempotency_keys", ["created_at"])


def _create_pulls() -> None:
    op.create_table(
        "pulls",
        sa.Column("repo_id", sa.Text, sa.ForeignKey("repos.id"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        _text("title"),
        _text("body"),
        _text("head_branch"),
        _text("base_branch"),
        _text("head_commit"),
        _text("base_commit"),
        _text("state"),
        _flag("draft"),
        _text("merge_commit", null=True),
        _number("created_at"),
        _number("merged_at", null=True),
        _number("closed_at", null=True),
    )
    op.create_index("pulls_of_branch", "pulls", ["repo_id", "head_branch"], unique=True)


def _create_workers() -> None:
    op.create_table(
        "workers",
        _id(),
        _text("hostname"),
        _text("agents"),
        _number("slots"),
        _number("started_at"),
        _number("heartbeat_at"),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
