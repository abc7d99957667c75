"""Fills a store with thirty days of finished jobs by a few statements, on both engines.

Half of the jobs belong to one organization, the others to a hundred. Each job has three events, a
delivery with its attempt, a log, its cost and two labels; every second one has a pull request.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import asyncpg

from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at

ORGANIZATION_ID, ORGANIZATION = "org_0", "org0"
REPO = "acme/shop"
AGENTS = ("fixer", "linter", "updater", "tester")
OTHERS = 100
DAYS = 30
# The time of a job is one of these steps; the number of its job makes an identifier unique.
_STEPS = 1_000
_TIME_LENGTH = 10
_SETTINGS = ("synchronous_commit = off", "maintenance_work_mem = '512MB'", "work_mem = '256MB'")
_INDEXES = (
    "SELECT indexname AS name, indexdef AS definition FROM pg_indexes WHERE schemaname = 'public'"
    " AND tablename = ANY($1) AND indexname NOT LIKE '%\\_pkey'"
)
LARGE_TABLES = (
    "jobs",
    "events",
    "deliveries",
    "delivery_attempts",
    "job_labels",
    "job_logs",
    "job_spending",
    "pulls",
)


def _id(prefix: str, number: str = "n.number") -> str:
    """SQL for an identifier with the time of the job."""
    return f"'{prefix}_' || s.code || CAST(1000000000000000 + {number} AS TEXT)"


_OF_JOB = "FROM numbers n JOIN steps s ON s.number = n.step"
_OWNER = f"CASE WHEN n.number % 2 = 0 THEN 0 ELSE 1 + n.number / 2 % {OTHERS} END"
_STATEMENTS = (
    (
        "INSERT INTO organizations (id, name, plan, created_at)"
        " SELECT 'org_' || number, 'org' || number, 'enterprise', 0 FROM steps"
        f" WHERE number <= {OTHERS}"
    ),
    (
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at) SELECT 'repo_' || number, 'org_' || number,"
        f" '{REPO}', 'local', '', 'main', '1', 0 FROM steps WHERE number <= {OTHERS}"
    ),
    (
        "INSERT INTO repo_index (repo_id, status) SELECT 'repo_' || number, 'ready'"
        f" FROM steps WHERE number <= {OTHERS}"
    ),
    (
        "INSERT INTO webhook_endpoints (id, organization_id, url, events, sealed, key_id,"
        " created_at, updated_at) SELECT 'whk_' || number, 'org_' || number, 'https://hooks.example.com/',"
        " '[\"job.completed\"]', CAST('s' AS {blob}), 'k', 0, 0 FROM steps"
        f" WHERE number <= {OTHERS}"
    ),
    (
        "INSERT INTO jobs (id, organization_id, repo_id, repo, agent, ticket_id, config_override,"
        " status, attempt, created_at, queued_at, started_at, completed_at, branch,"
        " pr_url, pr_number, error_code, usage, prompt, created_by, created_by_name, last_sequence)"
        f" SELECT {_id('job')}, 'org_' || ({_OWNER}), 'repo_' || ({_OWNER}), '{REPO}',"
        f" CASE n.number % 3 WHEN 0 THEN '{AGENTS[0]}' WHEN 1 THEN '{AGENTS[1]}'"
        f"  ELSE '{AGENTS[2]}' END,"
        " 'SHOP-' || n.number, '{{\"title\": \"Make it work\"}}',"
        " CASE n.number % 4 WHEN 0 THEN 'completed' WHEN 1 THEN 'completed' WHEN 2 THEN 'failed'"
        "  ELSE 'cancelled' END,"
        " 1, s.at, s.at, s.at + 2000, s.at + 60000, 'agentjobs/fixer/' || n.number,"
        " CASE WHEN n.number % 4 < 2 THEN 'http://127.0.0.1:8080/pulls/' || n.number END,"
        " CASE WHEN n.number % 4 < 2 THEN n.number END,"
        " CASE WHEN n.number % 4 = 2 THEN 'agent_failed' END,"
        ' \'{{"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.01, "requests": 1}}\','
        f" 'You are a coding agent, working on a repository.', 'key_1', 'somebody', 3 {_OF_JOB}"
    ),
    *(
        "INSERT INTO events (job_id, sequence, id, event, body, created_at)"
        f" SELECT {_id('job')}, {sequence}, {_id('evt')} || '{sequence}', 'job.{name}',"
        f' CAST(\'{{{{"event": "job.{name}", "repo": "acme/shop", "pr_url": null}}}}\''
        f" AS {{blob}}), s.at {_OF_JOB}"
        for sequence, name in enumerate(("queued", "started", "completed"), 1)
    ),
    (
        "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
        f" event, status, attempts, due_at, created_at) SELECT {_id('dlv')}, 'org_' || ({_OWNER}),"
        f" 'whk_' || ({_OWNER}), {_id('job')}, 3, {_id('evt')} || '3', 'job.completed',"
        f" CASE WHEN n.number % 13 = 0 THEN 'failed' ELSE 'delivered' END, 1, s.at, s.at {_OF_JOB}"
    ),
    (
        "INSERT INTO delivery_attempts (delivery_id, id, at, duration_ms, status_code, address,"
        f" request_headers, response_headers, response_body) SELECT {_id('dlv')}, {_id('att')},"
        " s.at, 12, 200, '203.0.113.7:443', '[[\"Content-Type\", \"application/json\"]]',"
        f" '[[\"Server\", \"nginx\"]]', CAST('ok' AS {{blob}}) {_OF_JOB}"
    ),
    (
        "INSERT INTO job_logs (job_id, sequence, created_at, text)"
        f" SELECT {_id('job')}, 1, s.at, 'src/shop/prices.py is as it should be' {_OF_JOB}"
    ),
    *(
        "INSERT INTO job_labels (organization_id, key, value, job_id)"
        f" SELECT 'org_' || ({_OWNER}), '{key}', '{key}-' || {value}, {_id('job')} {_OF_JOB}"
        # Of half of an organization's jobs, and of a few.
        for key, value in (("team", "(n.number % 4)"), ("run", "(n.number / 100)"))
    ),
    f"INSERT INTO job_spending (job_id, spent_nanousd) SELECT {_id('job')}, 12345678 {_OF_JOB}",
    (
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        f" base_commit, state, created_at) SELECT 'repo_' || ({_OWNER}), n.number, 'Make it work',"
        " 'It did not work, and now it does.', 'agentjobs/fixer/' || n.number, 'main', '2', '1',"
        f" CASE WHEN n.number % 8 = 0 THEN 'open' ELSE 'merged' END, s.at {_OF_JOB}"
        " WHERE n.number % 4 < 2"
    ),
)


def _steps(until_ms: int) -> list[tuple[int, int, str]]:
    length_ms = DAYS * DAY_MS // _STEPS
    starts = (until_ms - (_STEPS - number) * length_ms for number in range(_STEPS))
    return [
        (number, at, first_id_at("", at)[1 : 1 + _TIME_LENGTH]) for number, at in enumerate(starts)
    ]


def _setup(jobs: int) -> Iterator[str]:
    yield "CREATE TEMP TABLE steps (number BIGINT PRIMARY KEY, at BIGINT, code TEXT)"
    yield (
        "CREATE TEMP TABLE numbers AS WITH RECURSIVE n(number) AS (SELECT 0 UNION ALL"
        f" SELECT number + 1 FROM n WHERE number < {jobs - 1})"
        f" SELECT number, number * {_STEPS} / {jobs} AS step FROM n"
    )


def fill_sqlite(path: Path, jobs: int, until_ms: int) -> None:
    connection = sqlite3.connect(path)
    # Durability does not matter for generated data.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -500000")
    for statement in _setup(jobs):
        connection.execute(statement)
    connection.executemany("INSERT INTO steps VALUES (?, ?, ?)", _steps(until_ms))
    for statement in _STATEMENTS:
        connection.execute(statement.format(blob="BLOB"))
        connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def fill_postgresql(url: str, jobs: int, until_ms: int) -> None:
    connection = await asyncpg.connect(url, command_timeout=None)
    try:
        for setting in _SETTINGS:
            await connection.execute(f"SET {setting}")
        # No triggers for foreign keys, and indexes are built at once: much faster.
        await connection.execute("SET session_replication_role = replica")
        indexes = await connection.fetch(_INDEXES, list(LARGE_TABLES))
        for index in indexes:
            await connection.execute(f"DROP INDEX {index['name']}")
        for statement in _setup(jobs):
            await connection.execute(statement)
        await connection.executemany("INSERT INTO steps VALUES ($1, $2, $3)", _steps(until_ms))
        await connection.execute("ANALYZE steps; ANALYZE numbers")
        for statement in _STATEMENTS:
            await connection.execute(statement.format(blob="BYTEA"))
        for index in indexes:
            await connection.execute(index["definition"])
        # Autovacuum would have done this within the thirty days.
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
