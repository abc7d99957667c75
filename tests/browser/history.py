"""Two weeks of jobs, written directly to the store, because a new service has no plots.

Before the first look at the overview, which remembers hours that are over.
"""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import first_id_at

_HOUR_MS = 3_600_000
_DAYS = 14
_MOST_AT_ONCE = 3
_TITLES = (
    "Round prices on the bill",
    "Update the changelog",
    "Explain the discount rules",
    "Remove the old checkout",
    "Fix the flaky cart test",
)
_AGENTS = ("price-fixer", "note-taker", "waiting")
_COLUMNS = {
    "jobs": "id organization_id repo_id repo agent ticket_id config_override status created_at"
    " queued_at started_at completed_at branch error_code error_message usage prompt created_by"
    " created_by_name",
    "job_spending": "job_id spent_nanousd",
    "deliveries": "id organization_id endpoint_id job_id sequence event_id event status due_at"
    " created_at",
}


def write_history(database: Path) -> None:
    # A fixed seed, for the same data in every run.
    rng = random.Random(7)
    with closing(sqlite3.connect(database)) as connection, connection:
        owner = connection.execute("SELECT organization_id, id, full_name FROM repos").fetchone()
        rows = [
            _rows_of(rng, owner, at)
            for at in range(now_ms() - _DAYS * DAY_MS, now_ms() - 6 * _HOUR_MS, 6 * _HOUR_MS)
            for _ in range(rng.randint(1, _MOST_AT_ONCE))
        ]
        for table, columns in _COLUMNS.items():
            names = columns.split()
            placeholders = ", ".join("?" * len(names))
            sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({placeholders})"
            connection.executemany(sql, [row for each in rows for row in each[table]])


def _rows_of(rng: random.Random, owner: tuple[str, str, str], hour: int) -> dict[str, Any]:
    organization_id, repo_id, repo = owner
    at = hour + rng.randint(0, 5 * _HOUR_MS)
    job_id = _id("job", at, rng)
    agent, title = rng.choice(_AGENTS), rng.choice(_TITLES)
    has_failed = rng.random() < 0.15
    started = at + rng.randint(300, 9_000)
    finished = started + rng.randint(20_000, 240_000)
    cost = rng.randint(20_000_000, 400_000_000)
    usage = f'{{"input_tokens":41000,"output_tokens":1900,"cost_usd":{cost / 1e9},"requests":9}}'
    error = ("agent_failed", "The agent ended with code 1.") if has_failed else (None, None)
    status = "failed" if has_failed else "completed"
    job = (
        job_id, organization_id, repo_id, repo, agent, None, f'{{"title":"{title}"}}', status, at,
        at, started, finished, f"agentjobs/{agent}/{job_id[-12:]}", *error, usage, title, "",
        "Grace",
    )  # fmt: skip
    deliveries = [
        (
            _id("dlv", moment, rng), organization_id, "whk_before", job_id, sequence,
            _id("evt", moment, rng), event,
            "failed" if rng.random() < 0.06 else "delivered", moment, moment,
        )
        for sequence, event, moment in (
            (1, "job.queued", at), (2, "job.started", started), (3, f"job.{status}", finished)
        )
    ]  # fmt: skip
    return {"jobs": [job], "job_spending": [(job_id, cost)], "deliveries": deliveries}


def _id(prefix: str, at: int, rng: random.Random) -> str:
    """An ID that starts with the time, like all IDs."""
    first_id = first_id_at(prefix, at)
    return first_id[: -len("0" * 12)] + f"{rng.randrange(10**12):012}"
