"""Reserving and settling keep every limit, however requests interleave, on both engines."""

import asyncio
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentjobs.gateway.ledger import Account, BudgetExceeded, Ledger, Reservation
from agentjobs.gateway.spending import Totals
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import DAY_MS, now_ms
from tests.support.stores import add

JOB_LIMIT = 1_000
DAY_LIMIT = 1_500


async def ignore(tx: Transaction, totals: Totals) -> None:
    pass


async def account(
    db: Database, job: int | None = JOB_LIMIT, day: int | None = DAY_LIMIT
) -> Account:
    organization = await db.transact(add, f"org_{uuid.uuid4().hex}")
    return Account(
        job_id=f"job_{uuid.uuid4().hex}",
        organization_id=organization,
        job_limit_nanousd=job,
        day_limit_nanousd=day,
    )


async def job_totals(db: Database, owner: Account) -> dict[str, int]:
    row = await db.fetch_one("SELECT * FROM job_spending WHERE job_id = :id", id=owner.job_id)
    return dict(row) if row else {}


async def day_total(db: Database, owner: Account) -> int:
    rows = await db.fetch_all(
        "SELECT spent_nanousd FROM daily_spending WHERE organization_id = :id",
        id=owner.organization_id,
    )
    return sum(row["spent_nanousd"] for row in rows)


async def test_a_reservation_counts_as_spent_until_it_is_settled(database: Database) -> None:
    owner = await account(database)
    ledger = Ledger(database, owner, ignore)

    reservation = await ledger.reserve(400)
    assert (await job_totals(database, owner))["spent_nanousd"] == 400
    assert await day_total(database, owner) == 400

    await ledger.settle(reservation, nanousd=150, input_tokens=7, output_tokens=3)
    totals = await job_totals(database, owner)
    assert (totals["spent_nanousd"], totals["requests"]) == (150, 1)
    assert (totals["input_tokens"], totals["output_tokens"]) == (7, 3)
    assert await day_total(database, owner) == 150


async def test_exactly_the_limit_fits_and_nothing_above_it(database: Database) -> None:
    owner = await account(database)
    ledger = Ledger(database, owner, ignore)

    await ledger.reserve(JOB_LIMIT)
    with pytest.raises(BudgetExceeded, match="this job's budget") as refusal:
        await ledger.reserve(1)

    assert refusal.value.missing_nanousd == 1


async def test_a_refusal_names_the_smallest_amounts_exactly(database: Database) -> None:
    ledger = Ledger(database, await account(database), ignore)
    await ledger.reserve(JOB_LIMIT - 1)

    with pytest.raises(BudgetExceeded) as refusal:
        await ledger.reserve(2)

    assert (
        "budget is $0.000001; $0.000000999 of it is spent or reserved, and this request may cost"
        " $0.000000002."
    ) in str(refusal.value)


async def test_the_organizations_day_is_shared_by_its_jobs(database: Database) -> None:
    first = await account(database)
    second = Account(
        job_id=f"{first.job_id}_2",
        organization_id=first.organization_id,
        job_limit_nanousd=JOB_LIMIT,
        day_limit_nanousd=DAY_LIMIT,
    )
    await Ledger(database, first, ignore).reserve(1_000)

    with pytest.raises(BudgetExceeded, match="today"):
        await Ledger(database, second, ignore).reserve(501)

    assert await job_totals(database, second) == {}
    assert await day_total(database, first) == 1_000


async def test_a_refused_reservation_is_rolled_back(database: Database) -> None:
    owner = await account(database)
    reported: list[Totals] = []

    async def also(tx: Transaction, totals: Totals) -> None:
        reported.append(totals)

    with pytest.raises(BudgetExceeded):
        await Ledger(database, owner, also).reserve(1_001)

    assert await job_totals(database, owner) == {}
    assert await day_total(database, owner) == 0
    assert reported == []


async def test_the_totals_callback_runs_in_the_same_transaction(
    database: Database,
) -> None:
    owner = await account(database)

    async def also(tx: Transaction, totals: Totals) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await Ledger(database, owner, also).reserve(1)

    assert await job_totals(database, owner) == {}


async def test_spending_is_counted_even_without_limits(database: Database) -> None:
    owner = await account(database, job=None, day=None)
    ledger = Ledger(database, owner, ignore)

    await ledger.reserve(10**15)

    assert not ledger.has_limit
    assert await day_total(database, owner) == 10**15


async def test_a_reservation_is_settled_on_its_own_day(database: Database) -> None:
    owner = await account(database)
    ledger = Ledger(database, owner, ignore)
    yesterday = now_ms() // DAY_MS - 1
    await ledger.reserve(100)

    late = Reservation(nanousd=300, day=yesterday)
    await ledger.settle(late, nanousd=200, input_tokens=0, output_tokens=0)

    row = await database.fetch_one(
        "SELECT spent_nanousd FROM daily_spending WHERE organization_id = :id AND day = :day",
        id=owner.organization_id,
        day=yesterday,
    )
    assert row is not None
    assert row["spent_nanousd"] == -100


@pytest.mark.parametrize(("job", "day"), [(JOB_LIMIT, None), (None, JOB_LIMIT)])
async def test_settling_above_a_limit_is_reported_and_stops_reservations(
    database: Database, job: int | None, day: int | None
) -> None:
    ledger = Ledger(database, await account(database, job=job, day=day), ignore)
    first, second = await ledger.reserve(100), await ledger.reserve(100)

    message = await ledger.settle(first, nanousd=900, input_tokens=0, output_tokens=0)
    assert message is None
    message = await ledger.settle(second, nanousd=101, input_tokens=0, output_tokens=0)

    assert message is not None
    assert "budget" in message
    assert "$0.000001001 is spent" in message
    with pytest.raises(BudgetExceeded):
        await ledger.reserve(0)


@dataclass(frozen=True)
class Request:
    """A request of one of two jobs; it uses `used` of `reserve`, or all of it if None (cut off)."""

    job: int
    reserve: int
    used: int | None
    steps: int
    """How often other requests run before it is settled."""


requests = st.builds(
    lambda job, reserve, share, steps: Request(
        job, reserve, None if share is None else reserve * share // 100, steps
    ),
    st.integers(0, 1),
    st.integers(0, 700),
    st.none() | st.integers(0, 100),
    st.integers(0, 5),
)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(requests, min_size=1, max_size=12))
def test_no_interleaving_of_parallel_requests_exceeds_a_limit(
    database_url: str, plan: list[Request]
) -> None:
    asyncio.run(_race(database_url, plan))


async def _race(url: str, plan: list[Request]) -> None:
    from agentjobs.store.opening import open_database

    db = await open_database(url, migrate=False)
    try:
        first = await account(db)
        accounts = [first, _second_job(first)]
        job_costs: list[int] = []
        spent = await asyncio.gather(
            *(_live(db, accounts[request.job], request, job_costs) for request in plan)
        )
        assert max(job_costs, default=0) <= JOB_LIMIT
        for number, owner in enumerate(accounts):
            expected = sum(
                cost for cost, request in zip(spent, plan, strict=True) if request.job == number
            )
            assert (await job_totals(db, owner)).get("spent_nanousd", 0) == expected <= JOB_LIMIT
        assert await day_total(db, first) == sum(spent) <= DAY_LIMIT
    finally:
        await db.close()


def _second_job(first: Account) -> Account:
    return Account(
        job_id=f"{first.job_id}_2",
        organization_id=first.organization_id,
        job_limit_nanousd=JOB_LIMIT,
        day_limit_nanousd=DAY_LIMIT,
    )


async def _live(db: Database, owner: Account, request: Request, job_costs: list[int]) -> int:
    async def watch(tx: Transaction, totals: Totals) -> None:
        job_costs.append(totals.cost_nanousd)
        row = await tx.fetch_one(
            "SELECT sum(spent_nanousd) AS spent FROM daily_spending WHERE organization_id = :id",
            id=owner.organization_id,
        )
        assert row is not None
        assert row["spent"] <= DAY_LIMIT

    ledger = Ledger(db, owner, watch)
    try:
        reservation = await ledger.reserve(request.reserve)
    except BudgetExceeded:
        return 0
    for _ in range(request.steps):
        await asyncio.sleep(0)
    if request.used is None:
        return request.reserve
    await ledger.settle(reservation, nanousd=request.used, input_tokens=1, output_tokens=1)
    return request.used
