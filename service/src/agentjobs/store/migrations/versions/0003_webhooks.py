"""Webhook endpoints, deliveries and their attempts; effective settings of a running service."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.Text, primary_key=True)


def _text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[str]:
    text = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, sa.Text, nullable=null, server_default=text)


def _number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[int]:
    text = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=text)


def _bytes(name: str, *, null: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=null)


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(
        name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
    )


def upgrade() -> None:
    _create_endpoints()
    _create_deliveries()
    op.create_table(
        "effective_settings",
        sa.Column("name", sa.Text, primary_key=True),
        # JSON.
        _text("value"),
        _number("updated_at"),
    )


def _create_endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        _id(),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        _text("url"),
        _text("description", default=""),
        # A JSON list of event names; an empty list means all events.
        _text("events", default="[]"),
        _bytes("sealed"),
        _text("key_id"),
        # The pending secret, promoted at `promote_at` or on request.
        _bytes("pending_sealed", null=True),
        _text("pending_key_id", null=True),
        _number("promote_at", null=True),
        _number("created_at"),
        _number("updated_at"),
        _number("disabled_at", null=True),
        _text("disabled_reason", null=True),
        _number("last_success_at", null=True),
        _number("last_failure_at", null=True),
        # The first failure since the last success.
        _number("failing_since", null=True),
        _number("removed_at", null=True),
    )
    _partial_index(
        "webhook_endpoints_of_organization",
        "webhook_endpoints",
        ["organization_id", "id"],
        "removed_at IS NULL",
    )


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        _id(),
        _text("organization_id"),
        _text("endpoint_id"),
        # The event; `events` holds the payload once for all endpoints and attempts.
        _text("job_id"),
        _number("sequence"),
        _text("event_id"),
        _text("event"),
        _text("status"),
        _number("attempts", default=0),
        # Failed attempts since the first one or since the last redelivery.
        _number("failures", default=0),
        _number("due_at"),
        _number("created_at"),
        _text("lease_owner", null=True),
        _number("lease_expires_at", null=True),
        _number("fence", default=0),
    )
    waiting = "status = 'pending' AND lease_owner IS NULL"
    # By organization first, so that senders can skip one that is at its limit.
    for kind, last, attempts in (("first", "id", "= 0"), ("retry", "due_at", "> 0")):
        _partial_index(
            f"deliveries_{kind}",
            "deliveries",
            ["organization_id", "endpoint_id", last],
            f"{waiting} AND attempts {attempts}",
        )
    _partial_index(
        "deliveries_leased", "deliveries", ["lease_expires_at"], "lease_owner IS NOT NULL"
    )
    op.create_index("deliveries_of_job", "deliveries", ["job_id", "endpoint_id", "sequence"])
    # Pages of the log, by organization or endpoint and by status or all. An expression, so that
    # queries for waiting deliveries do not use these indexes.
    for owner in ("organization", "endpoint"):
        of_status = sa.text("(status || '')")
        op.create_index(f"deliveries_of_{owner}", "deliveries", [f"{owner}_id", of_status, "id"])
    if op.get_bind().dialect.name == "postgresql":
        # Every row is updated twice within seconds, so dead rows accumulate and statistics become
        # stale. Thresholds count rows, independently of the size of the log.
        op.execute(
            "ALTER TABLE deliveries SET (fillfactor = 80,"
            " autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,"
            " autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000)"
        )
    op.create_table(
        "delivery_attempts",
        sa.Column("delivery_id", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        _number("at"),
        _number("duration_ms"),
        _number("status_code", null=True),
        _text("error_class", null=True),
        _text("error", null=True),
        _text("address", null=True),
        # JSON lists of [name, value].
        _text("request_headers"),
        _text("response_headers"),
        _bytes("response_body"),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
