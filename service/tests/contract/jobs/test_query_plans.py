"""Statements that run all the time read the rows they need, however many jobs there were.

SQLite has no statistics here, so it needs hints where several indexes would do. PostgreSQL has none
before a table is analyzed, and keeps the plan of a prepared statement.
"""

import re
import sqlite3
from pathlib import Path

import pytest

from agentjobs.jobs.operations import rescue
from agentjobs.jobs.operations.disconnect import _UNFINISHED as QUEUED_OF_REPO
from agentjobs.jobs.operations.follow_up import _ACTIVE as ACTIVE_ON_BRANCH
from agentjobs.jobs.queue import claim_queries, queue_reader
from agentjobs.jobs.queue.acceptance import _ADMISSIONS
from agentjobs.jobs.views import organization_lines, service_queue, usage
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.job_search import page_query
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
        claim_queries.WITHOUT_OUTAGES.organizations,
        claim_queries.WITHOUT_OUTAGES.choose,
        claim_queries.WITHOUT_OUTAGES.read,
        claim_queries.DURING_OUTAGES.organizations,
        claim_queries.DURING_OUTAGES.choose,
        claim_queries.ACTIVE_OF_AGENT,
        queue_reader._RUNNING,
        queue_reader._WAITING_BY_AGENT,
        queue_reader._WAITING_IN_ORDER,
        queue_reader._FINISHED,
        queue_reader._CREATED,
        service_queue._WAITING,
        organization_lines._select_lines("SELECT o.* FROM organizations o WHERE o.name = :name"),
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
    statement = render("postgresql", _ADMISSIONS.many)
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
    assert "job_queue_waiting_in_order" in re.findall(r"using (job_queue_\w+)", text)
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


SEARCHES = [
    JobFilter(labels={"a": "1"}),
    JobFilter(labels={"a": "1", "b": "2"}),
    JobFilter(labels={"a": "1"}, status="failed", repo="acme/shop", since=1),
    JobFilter(labels={f"k{number}": "" for number in range(8)}, agent="fixer"),
    JobFilter(status="failed", agent="fixer"),
    JobFilter(since=1, until=2),
    JobFilter(follows="job_x", labels={"a": "1"}, ticket="T-1"),
]


def search_statement(filter: JobFilter) -> str:
    page = page_query(filter.names(), limit=32, scan_size=250, labels=len(filter.labels))
    return f"{page} SELECT page.id FROM page"


@pytest.mark.parametrize("filter", SEARCHES)
def test_sqlite_searches_jobs_by_ranges_of_indexes(
    sqlite_template: Path, filter: JobFilter
) -> None:
    statement = render("sqlite", search_statement(filter))
    connection = sqlite3.connect(sqlite_template)
    explained = connection.execute(
        f"EXPLAIN QUERY PLAN {statement.sql}", [""] * len(statement.names)
    )
    plan = [row[3] for row in explained]
    connection.close()
    assert [line for line in plan if re.match(r"SCAN (jobs|job_labels)\b", line)] == []
    labels = [line for line in plan if line.startswith("SEARCH job_labels")]
    assert bool(labels) == bool(filter.labels)
    for line in labels:
        assert "(organization_id=? AND key=? AND value=? AND job_id" in line


@pytest.mark.parametrize("filter", SEARCHES)
async def test_postgresql_searches_jobs_by_ranges_of_indexes(
    postgres_url: str, filter: JobFilter
) -> None:
    statement = render("postgresql", search_statement(filter))
    types = ", ".join(
        "bigint" if name in {"created_since", "created_until"} else "text"
        for name in statement.names
    )
    connection = await connect(
        postgres_url,
        plan_cache_mode="force_generic_plan",
        enable_seqscan="off",
        enable_bitmapscan="off",
    )
    try:
        await connection.execute(f"PREPARE search ({types}) AS {statement.sql}")
        values = ", ".join("NULL" for _ in statement.names)
        plan = await connection.fetch(f"EXPLAIN EXECUTE search ({values})")
    finally:
        await connection.close()
    text = "\n".join(line[0] for line in plan)
    assert "Seq Scan" not in text
    assert "job_labels_of_job" not in text
    conditions = re.findall(r"job_labels_pkey on .*\n +Index Cond: (.*)", text)
    assert bool(conditions) == bool(filter.labels)
    for condition in conditions:
        assert condition.startswith("((organization_id = $")
        assert "(key = $" in condition
        assert "value" in condition
