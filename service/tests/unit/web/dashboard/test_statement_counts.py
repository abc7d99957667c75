"""The number of statements per page does not depend on the amount of data."""

import pytest

from agentjobs.jobs.queue import fleet
from service.tests.unit.web.dashboard.addresses import GETS, address_of, describe_route
from service.tests.unit.web.dashboard.statements import count_statements
from tests.support.users import write

# Tables with many rows per organization: the key column, and other columns that must differ
# between copies.
MANY = {
    "users": ("id", {"email": "email || :number"}),
    "memberships": ("user_id", {}),
    "repos": ("id", {"full_name": "full_name || :number"}),
    "jobs": ("id", {}),
    "job_queue": ("job_id", {"credential_hash": "NULL"}),
    "api_keys": ("id", {"hash": "randomblob(32)"}),
    "webhook_endpoints": ("id", {}),
    "deliveries": ("id", {}),
    "audit_log": ("id", {}),
    "repo_imports": ("id", {}),
    "invitations": ("id", {"hash": "randomblob(32)"}),
    "pull_comments": ("id", {}),
    "workers": ("id", {}),
    "findings": ("id", {"version": "version || :number"}),
    "dependencies": ("position", {}),
    "platform_connections": ("id", {"name": "name || :number"}),
    "environment_builds": ("id", {}),
    "trackers": ("id", {"name": "name || :number"}),
}
TIMES = 20


async def multiply(dashboard):
    """Copy the rows of every table in MANY `TIMES` times."""
    for table, (key, others) in MANY.items():
        rows = await dashboard.db.fetch_all(f"PRAGMA table_info({table})")
        columns = [row["name"] for row in rows]
        # The new keys are as long as the existing keys and sort before them.
        new_key = f"substr({key}, 1, length({key}) - 18) || printf('%018d', :number)"
        values = {**{column: column for column in columns}, **others, key: new_key}
        for number in range(TIMES):
            await write(
                dashboard.db,
                f"INSERT OR IGNORE INTO {table} ({', '.join(columns)})"
                f" SELECT {', '.join(values[column] for column in columns)} FROM {table}"
                " WHERE :number = :number",
                number=number,
            )


@pytest.fixture
async def count_by_page(sample_dashboard, monkeypatch):
    # Otherwise, it depends on the moment which page reads the state of the fleet for the others.
    monkeypatch.setattr(fleet, "_CACHE_SECONDS", 3_600)

    async def count():
        counts = {}
        for route in GETS:
            if route.path.endswith(("/stream", "/log")):
                continue
            address = address_of(route, sample_dashboard.samples["acme"])
            # Other pages have a statement more for operators.
            is_operator = route.role == "operator"
            await write(sample_dashboard.db, "UPDATE users SET is_operator = :it", it=is_operator)
            with count_statements(sample_dashboard.db) as statements:
                assert (await sample_dashboard.admin.get(address)).status_code in {200, 303}
            counts[describe_route(route)] = statements.count
        return counts

    return count


async def test_more_data_does_not_increase_the_statements_of_a_page(
    sample_dashboard, count_by_page
):
    before = await count_by_page()
    await multiply(sample_dashboard)
    for table in MANY:
        row = await sample_dashboard.db.fetch_one(f"SELECT COUNT(*) AS n FROM {table}")
        assert row["n"] > TIMES, table
    after = await count_by_page()
    # Some results are cached for a second, so the count may differ slightly.
    grown = {name: count for name, count in after.items() if count > before[name] + 2}
    assert grown == {}
    # One page reads the state of the fleet for all, with nine statements.
    assert max(before.values()) <= 14


async def test_jobs_and_comments_do_not_increase_the_statements_of_a_pull_request(sample_dashboard):
    counts = []
    for _ in range(2):
        with count_statements(sample_dashboard.db) as statements:
            page = await sample_dashboard.viewer.open("/acme/acme/shop/pulls/1")
        counts.append(statements.count)
        await multiply(sample_dashboard)
    assert counts[0] == counts[1]
    assert page.text.count("Well done") > TIMES
