"""The books of one job and of its organization's day: reserve before, settle after.

Owns the limits and what does not fit them. Knows nothing of models or HTTP.
"""

from collections.abc import Awaitable, Callable

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
    ) -> None:
        """Correct what was reserved to what it cost, on the reservation's own day."""
        await self._db.transact(self._settle, reservation, nanousd, input_tokens, output_tokens)

    async def _reserve(self, tx: Transaction, nanousd: int) -> Reservation:
        account = self._account
        entry = Entry(
            job_id=account.job_id,
            organization_id=account.organization_id,
            nanousd=nanousd,
            requests=1,
        )
        spent = await charge(tx, entry)
        _check("job", spent.by_job, nanousd, account.job_limit_nanousd)
        _check("day", spent.on_day, nanousd, account.day_limit_nanousd)
        await self._also(tx, _totals(spent))
        return Reservation(nanousd=nanousd, day=spent.day)

    async def _settle(
        self,
        tx: Transaction,
        reservation: Reservation,
        nanousd: int,
        input_tokens: int,
        output_tokens: int,
    ) -> None:
        entry = Entry(
            job_id=self._account.job_id,
            organization_id=self._account.organization_id,
            nanousd=nanousd - reservation.nanousd,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            day=reservation.day,
        )
        await self._also(tx, _totals(await charge(tx, entry)))


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


_WHOSE = {
    "job": ("this job's budget", "a higher max_cost_usd, or `agentjobs orgs set-budget --per-job`"),
    "day": ("the organization's budget for today", "`agentjobs orgs set-budget --per-day`"),
}


def _check(what: str, spent: int, nanousd: int, limit: int | None) -> None:
    """`spent` with the reservation in it: that row is ours until the transaction ends."""
    if limit is None or spent <= limit:
        return
    whose, remedy = _WHOSE[what]
    message = (
        f"{whose} is ${usd_text(limit)}; ${usd_text(spent - nanousd)} of it is spent or reserved,"
        f" and this request may cost ${usd_text(nanousd)}. It takes {remedy} to allow it."
    )
    raise _DoesNotFit(Refusal(message=message, missing_nanousd=spent - limit))
