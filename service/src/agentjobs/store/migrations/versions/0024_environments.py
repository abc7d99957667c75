"""Environments of repositories: definitions, their secrets, builds, and jobs that wait for one."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "repo_environments",
        sa.Column("repo_id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, nullable=False),
        # Set in the service, as JSON; NULL: the repository's own files decide.
        sa.Column("definition", sa.Text, nullable=True),
        # Branches beside the default branch whose setup gets network and secrets, as JSON.
        sa.Column("trusted_branches", sa.Text, nullable=False),
        # Part of every key: a higher number retires the snapshots.
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "environment_secrets",
        sa.Column("organization_id", sa.Text, primary_key=True),
        # Empty for a secret of the whole organization.
        sa.Column("repo_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        # setup, proxy or registry.
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        # How the value is used, as JSON: header, path prefix, methods, kind, user name.
        sa.Column("usage", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "environment_builds",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, nullable=False),
        sa.Column("repo_id", sa.Text, nullable=False),
        # queued, building, ready, failed or removed.
        sa.Column("state", sa.Text, nullable=False),
        # job, push, image or request.
        sa.Column("reason", sa.Text, nullable=False),
        # The data directory that has or makes the snapshot; NULL: any worker may build.
        sa.Column("location", sa.Text, nullable=True),
        sa.Column("lease_until", sa.BigInteger, nullable=True),
        # What a worker fetches the repository with.
        sa.Column("credential_hash", sa.LargeBinary, nullable=True),
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("commit_id", sa.Text, nullable=False),
        # Of the definition and its files; `key` also has the digest of the image.
        sa.Column("request_key", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        # Paths and object IDs of the files in the key, as JSON.
        sa.Column("cache_files", sa.Text, nullable=False),
        sa.Column("image", sa.Text, nullable=False),
        sa.Column("image_digest", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("setup_ms", sa.BigInteger, nullable=False),
        sa.Column("hits", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger, nullable=True),
        sa.Column("used_at", sa.BigInteger, nullable=True),
    )
    op.create_index("environment_builds_repo", "environment_builds", ["repo_id", "request_key"])
    op.create_index("environment_builds_state", "environment_builds", ["state", "lease_until"])
    # Jobs with this key are not claimed until then, except by workers at the location.
    op.create_table(
        "environment_holds",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("repo_id", sa.Text, nullable=False),
        sa.Column("location", sa.Text, nullable=True),
        sa.Column("held_until", sa.BigInteger, nullable=False),
    )
    op.add_column("workers", sa.Column("location", sa.Text, nullable=True))
    op.add_column("jobs", sa.Column("environment_key", sa.Text, nullable=True))
    # Which snapshot the run used, as JSON.
    op.add_column("jobs", sa.Column("environment", sa.Text, nullable=True))
    # Host patterns that setup may reach, as JSON; NULL: those of the service.
    op.add_column("organizations", sa.Column("setup_network", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
