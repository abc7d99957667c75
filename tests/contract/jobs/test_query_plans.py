"""Statements that run all the time read the rows they need, however many jobs there were.

SQLite has no statistics here, so it needs hints where several indexes would do. PostgreSQL has none
before a table is analyzed, and keeps the plan of a prepared statement.
"""

import re
import sqlite3
from pathlib import Path

import pytest

from agentjobs.jobs.acceptance import _ADMISSIONS
from agentjobs.jobs.disconnect import _QUEUED as QUEUED_OF_REPO
from agentjobs.jobs.follow_up import _ACTIVE as ACTIVE_ON_BRANCH
from agentjobs.jobs.queue import claim_queries, fleet, rescue
from agentjobs.jobs.views import usage
from agentjobs.store.postgresql.connection import connect
from agentjobs.store.statements import render
from agentjobs.webhooks import maintenance
from agentjobs.webhooks import queue as deliveries

# Indexes with an entry for each job or delivery, and the tables themselves.
_LARGE = re.compile(
    r"(SEARCH|SCAN) \w+$|SCAN .*autoindex_(jobs|deliveries)|"
    r"INDEX (jobs_of_(organization|repo|agent|ticket)|jobs_finished_of_organization)"
)
_SMALL_TABLES = re.compile(r"SCAN (w|each|waiting|CONSTANT ROW)$")


@pytest.mark.parametrize(
    "sql",
    [
        claim_queries.USUALLY.organizations,
        claim_queries.USUALLY.choose,
        claim_queries.USUALLY.read,
        claim_queries.DURING_OUTAGES.organizations,
        claim_queries.DURING_OUTAGES.choose,
        claim_queries.ACTIVE_OF_AGENT,
        fleet._WAITING,
        fleet._RECENT,
        rescue._HAS_EXPIRED,
        rescue._EXPIRED,
        ACTIVE_ON_BRANCH,
        QUEUED_OF_REPO,
        maintenance._EXPIRE,
        deliveries._FAIL_OF_CLOSED,
        deliveries._WAITING_KINDS,
    ],
)
def test_sqlite_reads_no_finished_jobs_and_no_settled_deliveries(
    sqlite_template: Path, sql: str
) -> None:
    statement = render("sqlite", sql)
    parameters = ["[]"] * len(statement.names)
    connection = sqlite3.connect(sqlite_template)
    explained = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", parameters)
    plan = [row[3] for row in explained]
    connection.close()
    assert [line for line in plan if _LARGE.search(line) and not _SMALL_TABLES.match(line)] == []


async def test_postgresql_reads_only_the_repository_and_the_waiting_jobs_of_the_organization(
    postgres_url: str,
) -> None:
    statement = render("postgresql", _ADMISSIONS._many)
    connection = await connect(
        postgres_url,
        plan_cache_mode="force_generic_plan",
        # Other tests may have left statistics of a small table, which is rather scanned or sorted.
        enable_seqscan="off",
        enable_bitmapscan="off",
        enable_sort="off",
    )
    try:
        await connection.execute(f"PREPARE admissions (text, text, text) AS {statement.sql}")
        plan = await connection.fetch("EXPLAIN EXECUTE admissions ('{}', '{}', '{}')")
    finally:
        await connection.close()
    text = "\n".join(line[0] for line in plan)
    assert "jobs_waiting_in_order" in re.findall(r"using (jobs_\w+)", text)
    # Whatever PostgreSQL assumes about tables that it has not analyzed.
    assert "(id = v.organization_id)" in text
    assert "((organization_id = v.organization_id) AND (full_name = v.repo))" in text


@pytest.mark.parametrize("key", usage._KEYS.values())
def test_sqlite_sums_the_jobs_of_the_period_alone(sqlite_template: Path, key: str) -> None:
    statement = render("sqlite", usage._QUERY.format(key=key))
    connection = sqlite3.connect(sqlite_template)
    explained = connection.execute(
        f"EXPLAIN QUERY PLAN {statement.sql}", ["1"] * len(statement.names)
    )
    plan = [row[3] for row in explained if re.match(r"(SEARCH|SCAN) [js]\b", row[3])]
    connection.close()
    assert plan == [
        "SEARCH j USING INDEX jobs_of_organization (organization_id=? AND id>? AND id<?)",
        "SEARCH s USING INDEX sqlite_autoindex_job_spending_1 (job_id=?) LEFT-JOIN",
    ]
