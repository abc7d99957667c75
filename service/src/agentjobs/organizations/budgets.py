"""Budgets for models, per day (UTC) and per job, and what was spent per day.

Amounts are whole billionths of a US dollar, never floats. `gateway` enforces the budgets.
"""

import re
from decimal import Decimal

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.memberships import lock_organization
from agentjobs.organizations.organizations import find_organization
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.money import NANOUSD_PER_USD, usd_text
from agentjobs_runtime.problems import Problem

NO_LIMIT = "none"

_USD = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
_MAX_USD = 1_000_000_000


class Budget(msgspec.Struct, frozen=True):
    """None means no limit."""

    daily_nanousd: int | None
    job_nanousd: int | None


class DailySpending(msgspec.Struct, frozen=True):
    """`day` counts from the epoch, in UTC."""

    day: int
    nanousd: int


async def list_budgets(db: Database) -> dict[str, Budget]:
    """Keyed by the organization's id."""
    rows = await db.fetch_all(
        "SELECT id, daily_budget_nanousd, job_budget_nanousd FROM organizations"
    )
    return {row["id"]: _budget(row) for row in rows}


async def find_budget(db: Database | Transaction, organization_id: str) -> Budget:
    budget = await read_budget(db, organization_id)
    if budget is None:
        raise Problem("organization_not_found", "The organization was deleted.")
    return budget


async def read_budget(db: Database | Transaction, organization_id: str) -> Budget | None:
    """None if the organization was deleted."""
    row = await db.fetch_one(
        "SELECT daily_budget_nanousd, job_budget_nanousd FROM organizations WHERE id = :id",
        id=organization_id,
    )
    return None if row is None else _budget(row)


@audit.in_transaction
async def set_budget(
    tx: Transaction, organization: str, *, daily: str | None = None, job: str | None = None
) -> Budget:
    """US dollars as text, or `none` for no limit; a limit that is not given stays unchanged."""
    owner = await find_organization(tx, organization)
    await lock_organization(tx, owner.id)
    before = budget = await find_budget(tx, owner.id)
    if daily is not None:
        budget = msgspec.structs.replace(budget, daily_nanousd=parse_limit(daily))
    if job is not None:
        budget = msgspec.structs.replace(budget, job_nanousd=parse_limit(job))
    if budget == before:
        return budget
    await tx.execute(
        "UPDATE organizations SET daily_budget_nanousd = :daily, job_budget_nanousd = :job"
        " WHERE id = :id",
        id=owner.id,
        daily=budget.daily_nanousd,
        job=budget.job_nanousd,
    )
    details = {
        "daily": usd_text(budget.daily_nanousd) or NO_LIMIT,
        "job": usd_text(budget.job_nanousd) or NO_LIMIT,
    }
    await audit.record(tx, owner.id, "budget.changed", owner.name, **details)
    return budget


async def list_daily_spending(
    db: Database, organization_id: str, *, last_day: int, days: int
) -> list[DailySpending]:
    """The `days` days up to `last_day`, oldest first, including days without spending."""
    first_day = last_day - days + 1
    rows = await db.fetch_all(
        "SELECT day, spent_nanousd FROM daily_spending"
        " WHERE organization_id = :organization_id AND day >= :first_day AND day <= :last_day",
        organization_id=organization_id,
        first_day=first_day,
        last_day=last_day,
    )
    spent = {row["day"]: row["spent_nanousd"] for row in rows}
    return [DailySpending(day, spent.get(day, 0)) for day in range(first_day, last_day + 1)]


def parse_limit(text: str) -> int | None:
    """Billionths of a dollar; None for `none`."""
    if text.strip().lower() == NO_LIMIT:
        return None
    return parse_usd(text)


def parse_usd(text: str) -> int:
    amount = Decimal(text) if _USD.fullmatch(text) else Decimal(0)
    if not 0 < amount <= _MAX_USD:
        raise Problem(
            "invalid_amount",
            f"{text!r} is not an amount in US dollars. Use a number above 0 with at most 9 "
            f"decimals, such as 5 or 0.25, or `{NO_LIMIT}` for no limit.",
        )
    return int(amount * NANOUSD_PER_USD)


def _budget(row: Row) -> Budget:
    return Budget(row["daily_budget_nanousd"], row["job_budget_nanousd"])
