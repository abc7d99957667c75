"""Commands of the operator while `database_url` leads to PgBouncer in transaction mode."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_process import CommandLine
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresCluster

# More often than the pooler has server connections, each of which would keep prepared statements.
# Their names repeat in each process.
_TIMES = 4


@pytest.fixture
def agentjobs(
    postgres_cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> Iterator[CommandLine]:
    pooler = PgBouncer(postgres_cluster)
    yield CommandLine(
        tmp_path / "data",
        AGENTJOBS_DATABASE_URL=pooler.url(postgres_url),
        AGENTJOBS_DATABASE_DIRECT_URL=postgres_url,
    )
    pooler.remove()


def test_a_database_behind_pgbouncer_is_migrated_again_and_again(
    agentjobs: CommandLine,
) -> None:
    for _ in range(_TIMES):
        assert agentjobs("migrate", "--json").document["current"]


def test_a_pooler_without_the_direct_url_is_named(agentjobs: CommandLine) -> None:
    alone = agentjobs.with_settings(AGENTJOBS_DATABASE_DIRECT_URL="")
    failed = [done for done in (alone("workers", "list") for _ in range(_TIMES)) if done.exit_code]
    assert failed
    for each in failed:
        assert "set AGENTJOBS_DATABASE_DIRECT_URL to PostgreSQL itself" in each.err
        assert "asyncpg" not in each.err


def test_a_backup_is_restored_behind_pgbouncer_again_and_again(
    agentjobs: CommandLine, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup")
    assert agentjobs("backup", backup).exit_code == 0
    for _ in range(_TIMES):
        assert agentjobs("restore", backup, "--force", "--json").document["queued_jobs"] == 0
