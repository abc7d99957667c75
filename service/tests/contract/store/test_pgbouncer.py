"""The store through PgBouncer in transaction mode.

Runs the cases of the other modules that depend on the connection.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database
from service.tests.contract.store.test_changes import (  # noqa: F401 - run with the fixtures below
    other,
    test_a_change_is_published_after_its_transaction_commits,
    test_a_process_is_not_notified_of_its_own_changes,
    test_another_connection_is_notified_within_a_second,
    test_another_process_is_notified_within_a_second,
    test_changes_of_a_short_command_reach_other_processes,
    test_changes_that_were_rolled_back_are_never_published,
)
from service.tests.contract.store.test_store import (  # noqa: F401 - run with the fixtures below
    test_a_broken_constraint_is_an_integrity_error,
    test_a_cancelled_transaction_is_atomic_and_the_store_keeps_working,
    test_a_last_statement_that_fails_undoes_all_others,
    test_a_statement_may_return_the_row_it_wrote,
    test_a_transaction_sees_its_own_writes_and_others_do_not,
    test_a_transaction_that_raises_is_rolled_back_and_raises_to_its_caller,
    test_a_transactions_writes_are_visible_when_it_returns,
    test_after_a_failed_statement_a_transaction_refuses_everything,
    test_many_rows_go_in_with_one_call,
    test_many_writers_lose_no_update,
    test_more_callers_than_connections_are_all_served,
    test_nothing_can_be_written_outside_a_transaction,
    test_the_last_statement_commits_with_all_others,
)
from service.tests.contract.store.test_values import (  # noqa: F401 - run with the fixtures below
    probe,
    test_a_list_can_be_a_parameter,
    test_any_text_is_safe_as_a_parameter,
    test_bytes_are_stored_unchanged,
    test_numbers_keep_all_their_64_bits,
)
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresCluster
from tests.support.stores import add, names


@pytest.fixture(scope="module")
def pgbouncer(postgres_cluster: PostgresCluster) -> Iterator[PgBouncer]:
    pooler = PgBouncer(postgres_cluster)
    yield pooler
    pooler.remove()


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """For second connections and processes, which need no pooler."""
    return postgres_url


@pytest.fixture
async def database(postgres_url: str, pgbouncer: PgBouncer) -> AsyncIterator[Database]:
    db = await open_database(pgbouncer.url(postgres_url), migrate=False, direct_url=postgres_url)
    yield db
    await db.close()


async def test_a_database_is_migrated_past_the_pooler(
    postgres_cluster: PostgresCluster, pgbouncer: PgBouncer
) -> None:
    name = postgres_cluster.create_database()
    url = postgres_cluster.url(name)
    db = await open_database(pgbouncer.url(url), migrate=True, direct_url=url)
    try:
        await db.transact(add, "a")
        assert await names(db) == ["a"]
    finally:
        await db.close()
        postgres_cluster.drop_database(name)


async def test_a_stopped_process_leaves_no_transaction_open(
    database: Database, postgres_url: str
) -> None:
    async def read_timeout(tx: Transaction) -> str:
        row = await tx.fetch_one("SHOW idle_in_transaction_session_timeout")
        assert row is not None
        return str(row["idle_in_transaction_session_timeout"])

    timeouts = await asyncio.gather(*(database.transact(read_timeout) for _ in range(12)))
    assert set(timeouts) == {"5s"}
    # The settings of a transaction end with it, so that other clients of the pooler are unaffected.
    direct = await asyncpg.connect(postgres_url)
    assert await direct.fetchval("SHOW idle_in_transaction_session_timeout") == "0"
    await direct.close()
