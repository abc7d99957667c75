"""An organization's daily spending and budgets, on both stores."""

import uuid

from agentjobs.organizations.budgets import (
    Budget,
    DailySpending,
    find_budget,
    list_daily_spending,
    set_budget,
)
from agentjobs.store.database import Database, Transaction
from tests.support.stores import add


async def spend(tx: Transaction, organization_id: str, day: int, nanousd: int) -> None:
    await tx.execute(
        "INSERT INTO daily_spending (organization_id, day, spent_nanousd)"
        " VALUES (:organization_id, :day, :nanousd)",
        organization_id=organization_id,
        day=day,
        nanousd=nanousd,
    )


async def test_daily_spending_includes_days_without_spending(database: Database) -> None:
    organization_id = await database.transact(add, f"org_{uuid.uuid4().hex}")
    other_id = await database.transact(add, f"org_{uuid.uuid4().hex}")
    for organization, day, nanousd in [
        (organization_id, 100, 1),
        (organization_id, 101, 2),
        (organization_id, 103, 4),
        (organization_id, 104, 8),
        (other_id, 102, 16),
    ]:
        await database.transact(spend, organization, day, nanousd)
    assert await list_daily_spending(database, organization_id, last_day=103, days=3) == [
        DailySpending(101, 2),
        DailySpending(102, 0),
        DailySpending(103, 4),
    ]


async def test_the_limits_of_one_organization_are_its_own(database: Database) -> None:
    organization_id = await database.transact(add, f"org_{uuid.uuid4().hex}")
    assert await find_budget(database, organization_id) == Budget(None, None)
    await set_budget(database, organization_id, daily="2", job="none")
    assert await find_budget(database, organization_id) == Budget(2_000_000_000, None)
