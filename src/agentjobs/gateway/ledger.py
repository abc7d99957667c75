"""The books of one job and of its organization's day: reserve before, settle after.

Owns the limits and what does not fit them. Knows nothing of models or HTTP.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from agentjobs.gateway.spending import Entry, Spent, charge
from agentjobs.organizations.budgets import NANOUSD_PER_USD, usd_text
from agentjobs.store.database import Database, Transaction


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Who pays, and how much at most; None: no limit."""

    job_id: str
    organization_id: str
    job_limit_nanousd: int | None = None
    day_limit_nanousd: int | None = None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has spent so far, open reservations included."""

    input_tokens: int
    output_tokens: int
    cost_nanousd: int
    requests: int

    def as_usage(self) -> dict[str, int | float]:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_nanousd / NANOUSD_PER_USD,
            "requests": self.requests,
        }


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Money that is already counted as spent, on this day (since the epoch, in UTC)."""

    nanousd: int
    day: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for does not fit; `missing_nanousd` is by how much."""

    message: str
    missing_nanousd: int


OnTotals = Callable[[Transaction, Totals], Awaitable[None]]


class Ledger:
    """`also` writes what others want to know of the totals, in the same transaction."""

    def __init__(self, db: Database, account: Account, also: OnTotals) -> None:
        self._db = db
        self._account = account
        self._also = also

    @property
    def limited(self) -> bool:
        account = self._account
        return account.job_limit_nanousd is not None or account.day_limit_nanousd is not None

    async def reserve(self, nanousd: int) -> Reservation | Refusal:
        """Count it as spent, or refuse: all or nothing, whoever else reserves meanwhile."""
        try:
            return await self._db.transact(self._reserve, nanousd)
        except _DoesNotFit as refused:
            return refused.refusal

    async def settle(
        self, reservation: Reservation, *, nanousd: int, input_tokens: int, output_tokens: int
    ) -> str | None:
        """Correct what was reserved to what it cost, on the reservation's own day.

        Tells why nothing more may be spent if that leaves a limit behind it.
        """
        return await self._db.transact(
            self._settle, reservation, nanousd, input_tokens, output_tokens
        )

    async def _reserve(self, tx: Transaction, nanousd: int) -> Reservation:
        account = self._account
        entry = Entry(
            job_id=account.job_id,
            organization_id=account.organization_id,
            nanousd=nanousd,
            requests=1,
        )
        spent = await charge(tx, entry)
        if passed := _passed(account, spent):
            raise _DoesNotFit(_refusal(passed, nanousd))
        await self._also(tx, _totals(spent))
        return Reservation(nanousd=nanousd, day=spent.day)

    async def _settle(
        self,
        tx: Transaction,
        reservation: Reservation,
        nanousd: int,
        input_tokens: int,
        output_tokens: int,
    ) -> str | None:
        entry = Entry(
            job_id=self._account.job_id,
            organization_id=self._account.organization_id,
            nanousd=nanousd - reservation.nanousd,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            day=reservation.day,
        )
        spent = await charge(tx, entry)
        await self._also(tx, _totals(spent))
        passed = _passed(self._account, spent)
        return _overdrawn(passed) if passed else None


def _totals(spent: Spent) -> Totals:
    return Totals(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_nanousd=spent.by_job,
        requests=spent.requests,
    )


class _DoesNotFit(Exception):
    """Raised inside the transaction, so that nothing of it remains."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class _Passed(NamedTuple):
    """A limit, and the sum that is above it."""

    whose: str
    remedy: str
    spent: int
    limit: int


def _passed(account: Account, spent: Spent) -> _Passed | None:
    """Of sums that are ours until the transaction ends."""
    job, day = account.job_limit_nanousd, account.day_limit_nanousd
    if job is not None and spent.by_job > job:
        remedy = "a higher max_cost_usd, or `agentjobs orgs set-budget --per-job`"
        return _Passed("this job's budget", remedy, spent.by_job, job)
    if day is not None and spent.on_day > day:
        remedy = "`agentjobs orgs set-budget --per-day`"
        return _Passed("the organization's budget for today", remedy, spent.on_day, day)
    return None


def _refusal(passed: _Passed, nanousd: int) -> Refusal:
    message = (
        f"{passed.whose} is ${usd_text(passed.limit)}; ${usd_text(passed.spent - nanousd)} of it is"
        f" spent or reserved, and this request may cost ${usd_text(nanousd)}."
        f" It takes {passed.remedy} to allow it."
    )
    return Refusal(message=message, missing_nanousd=passed.spent - passed.limit)


def _overdrawn(passed: _Passed) -> str:
    return (
        f"{passed.whose} is ${usd_text(passed.limit)}, and ${usd_text(passed.spent)} is spent or"
        f" reserved: an answer cost more than was to be expected. It takes {passed.remedy} to"
        " allow more."
    )
