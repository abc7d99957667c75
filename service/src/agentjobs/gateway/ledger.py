"""The spending ledger of one job and its organization's day: reserve first, settle afterwards.

Owns the limits and their error messages. Knows nothing about models or HTTP.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from agentjobs.gateway.spending import Spent, Totals, charge
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.money import usd_text


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The paying job and organization with their limits; None means no limit."""

    job_id: str
    organization_id: str
    job_limit_nanousd: int | None = None
    day_limit_nanousd: int | None = None


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """An amount already counted as spent; `day` counts from the epoch, in UTC."""

    nanousd: int
    day: int


class BudgetExceeded(Exception):
    """The amount does not fit into a limit; `missing_nanousd` exceeds it."""

    def __init__(self, message: str, missing_nanousd: int) -> None:
        super().__init__(message)
        self.missing_nanousd = missing_nanousd


OnTotals = Callable[[Transaction, Totals], Awaitable[None]]


class Ledger:
    """`on_totals` also stores the job's totals, in the same transaction."""

    def __init__(self, db: Database, account: Account, on_totals: OnTotals) -> None:
        self._db = db
        self._account = account
        self._on_totals = on_totals

    @property
    def has_limit(self) -> bool:
        account = self._account
        return account.job_limit_nanousd is not None or account.day_limit_nanousd is not None

    async def reserve(self, nanousd: int) -> Reservation:
        """Count the amount as spent, or raise BudgetExceeded; atomic under concurrent
        reservations."""
        return await self._db.transact(self._reserve, nanousd)

    async def settle(
        self, reservation: Reservation, *, nanousd: int, input_tokens: int, output_tokens: int
    ) -> str | None:
        """Correct the reserved amount to the actual cost, on the day of the reservation.

        Returns a message if a limit is exceeded now.
        """
        return await self._db.transact(
            self._settle, reservation, nanousd, input_tokens, output_tokens
        )

    async def _reserve(self, tx: Transaction, nanousd: int) -> Reservation:
        account = self._account
        spent = await charge(tx, account.job_id, account.organization_id, nanousd, requests=1)
        if exceeded := _exceeded_limit(account, spent):
            raise _refusal(exceeded, nanousd)
        await self._on_totals(tx, spent.totals)
        return Reservation(nanousd=nanousd, day=spent.day)

    async def _settle(
        self,
        tx: Transaction,
        reservation: Reservation,
        nanousd: int,
        input_tokens: int,
        output_tokens: int,
    ) -> str | None:
        account = self._account
        spent = await charge(
            tx,
            account.job_id,
            account.organization_id,
            nanousd - reservation.nanousd,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            day=reservation.day,
        )
        await self._on_totals(tx, spent.totals)
        exceeded = _exceeded_limit(account, spent)
        return _overdraft_message(exceeded) if exceeded else None


class _ExceededLimit(NamedTuple):
    """A limit and the sum that exceeds it."""

    name: str
    remedy: str
    spent: int
    limit: int


def _exceeded_limit(account: Account, spent: Spent) -> _ExceededLimit | None:
    """The rows of both sums are locked until the transaction ends."""
    job, day = account.job_limit_nanousd, account.day_limit_nanousd
    if job is not None and spent.totals.cost_nanousd > job:
        remedy = "a higher max_cost_usd, or `agentjobs orgs set-budget --per-job`"
        return _ExceededLimit("this job's budget", remedy, spent.totals.cost_nanousd, job)
    if day is not None and spent.on_day > day:
        remedy = "`agentjobs orgs set-budget --per-day`"
        return _ExceededLimit("the organization's budget for today", remedy, spent.on_day, day)
    return None


def _refusal(exceeded: _ExceededLimit, nanousd: int) -> BudgetExceeded:
    spent = usd_text(exceeded.spent - nanousd)
    message = (
        f"{exceeded.name} is ${usd_text(exceeded.limit)}; ${spent} of it is spent or reserved,"
        f" and this request may cost ${usd_text(nanousd)}."
        f" To allow the request, use {exceeded.remedy}."
    )
    return BudgetExceeded(message, exceeded.spent - exceeded.limit)


def _overdraft_message(exceeded: _ExceededLimit) -> str:
    return (
        f"{exceeded.name} is ${usd_text(exceeded.limit)}, and ${usd_text(exceeded.spent)} is"
        " spent or reserved: a response cost more than its reservation."
        f" To allow more, use {exceeded.remedy}."
    )
