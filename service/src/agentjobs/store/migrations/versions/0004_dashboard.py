"""Users, memberships, sessions and invitations; the audit log; indexes of the dashboard."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.Text, primary_key=True)


def _hash() -> sa.Column[bytes]:
    """The hash of a token; the token itself is not stored."""
    return sa.Column("hash", sa.LargeBinary, primary_key=True)


def _text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[str]:
    text = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, sa.Text, nullable=null, server_default=text)


def _number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[int]:
    text = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=text)


def _user(*, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(
        "user_id", sa.Text, sa.ForeignKey("users.id"), nullable=False, primary_key=primary_key
    )


def _organization(*, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(
        "organization_id",
        sa.Text,
        sa.ForeignKey("organizations.id"),
        nullable=False,
        primary_key=primary_key,
    )


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
    _create_users()
    _create_sessions()
    _create_audit_log()
    _create_repo_imports()
    _create_pull_comments()
    _add_to_jobs()


def _create_users() -> None:
    op.create_table(
        "users",
        _id(),
        # Lowercase.
        sa.Column("email", sa.Text, nullable=False, unique=True),
        _text("name", default=""),
        _text("password_hash", null=True),
        _text("oidc_issuer", null=True),
        _text("oidc_subject", null=True),
        _number("created_at"),
        _number("last_sign_in_at", null=True),
    )
    _partial_index(
        "users_of_provider",
        "users",
        ["oidc_issuer", "oidc_subject"],
        "oidc_subject IS NOT NULL",
        unique=True,
    )
    op.create_table(
        "memberships",
        _organization(primary_key=True),
        _user(primary_key=True),
        _text("role"),
        _number("created_at"),
    )
    op.create_index("memberships_of_user", "memberships", ["user_id"])
    op.create_table(
        "invitations",
        _id(),
        _organization(),
        _text("email"),
        _text("role"),
        sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
        # The display name of the inviting actor.
        _text("invited_by"),
        _number("created_at"),
        _number("expires_at"),
        _number("accepted_at", null=True),
        _number("revoked_at", null=True),
    )
    op.create_index("invitations_of_organization", "invitations", ["organization_id", "id"])


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        _hash(),
        _user(),
        # The current organization of the session.
        _organization(),
        _number("created_at"),
        _number("seen_at"),
        _number("expires_at"),
        _text("address"),
        _text("user_agent"),
    )
    op.create_index("sessions_of_user", "sessions", ["user_id"])
    op.create_table("sign_in_links", _hash(), _user(), _number("created_at"), _number("expires_at"))
    op.create_table(
        "sign_in_failures",
        # The hash of an e-mail address, or a network address.
        sa.Column("subject", sa.Text, primary_key=True),
        _number("failures"),
        _number("since"),
    )


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        _id(),
        _organization(),
        _number("at"),
        # user, key, operator or service; its identifier, if any; its display name.
        _text("actor_kind"),
        _text("actor_id", null=True),
        _text("actor"),
        _text("action"),
        _text("target"),
        # A JSON object.
        _text("details", default="{}"),
        _text("address"),
    )
    op.create_index("audit_log_of_organization", "audit_log", ["organization_id", "id"])


def _create_repo_imports() -> None:
    """Imports of repositories; a row is deleted once its repository is connected."""
    op.create_table(
        "repo_imports",
        _id(),
        _organization(),
        _text("full_name"),
        _text("source"),
        # running or failed
        _text("state"),
        _text("message", null=True),
        _text("started_by"),
        _number("created_at"),
        _number("updated_at"),
    )
    op.create_index("repo_imports_of_organization", "repo_imports", ["organization_id", "id"])


def _create_pull_comments() -> None:
    op.create_table(
        "pull_comments",
        _id(),
        sa.Column("repo_id", sa.Text, sa.ForeignKey("repos.id"), nullable=False),
        _number("number"),
        _text("author_id", null=True),
        _text("author"),
        _text("body"),
        _number("created_at"),
    )
    op.create_index("comments_of_pull", "pull_comments", ["repo_id", "number", "id"])
    op.create_index("pulls_by_time", "pulls", ["repo_id", "created_at", "number", "state"])
    # Who merged or closed it.
    op.add_column("pulls", _text("ended_by", null=True))


def _add_to_jobs() -> None:
    # The identifier and the display name of the key or user that created the job.
    op.add_column("jobs", _text("created_by", null=True))
    op.add_column("jobs", _text("created_by_name", null=True))
    # The job that this one follows up on.
    op.add_column("jobs", _text("follows", null=True))
    # By expressions, so that queries for waiting rows do not use these indexes.
    owner, status = sa.text("(organization_id || '')"), sa.text("(status || '')")
    op.create_index("jobs_of_status", "jobs", [owner, status, "id"])
    op.create_index("jobs_of_repo", "jobs", ["organization_id", "repo", "id"])
    op.create_index("jobs_of_agent", "jobs", ["organization_id", "agent", "id"])
    _partial_index(
        "jobs_of_ticket", "jobs", ["organization_id", "ticket_id", "id"], "ticket_id IS NOT NULL"
    )
    _partial_index(
        "jobs_finished_of_organization",
        "jobs",
        ["organization_id", "completed_at"],
        "completed_at IS NOT NULL",
    )
    _partial_index("jobs_of_pull", "jobs", ["repo_id", "pr_number"], "pr_number IS NOT NULL")
    _partial_index("jobs_that_follow", "jobs", ["follows"], "follows IS NOT NULL")


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
