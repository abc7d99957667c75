"""The budget of one job: reserves the cost of a request and settles it in the background.

If only open reservations of the same job exceed the budget, a request waits for them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from agentjobs.gateway.calls import Call
from agentjobs.gateway.ledger import BudgetExceeded, Ledger, Reservation
from agentjobs.gateway.prices import Price
from agentjobs.gateway.usage import Usage
from agentjobs.store.database import StoreError, StoreUnavailable
from agentjobs_runtime.sandbox_http.errors import RequestRefused

_log = logging.getLogger(__name__)

MAX_NANOUSD = 10**15
"""A million dollars per request: sums below it fit into the database's integers."""


class Charge:
    """The cost of one request: the reserved amount until the usage is known."""

    def __init__(self, call: Call, price: Price | None, reservation: Reservation) -> None:
        self.reservation = reservation
        self.nanousd = reservation.nanousd
        self.input_tokens = call.input_tokens
        self.output_tokens = call.output_tokens
        # What the provider reported at the end of its response.
        self.usage: Usage | None = None
        self._price = price

    def waive(self) -> None:
        self.nanousd = self.input_tokens = self.output_tokens = 0

    def apply_usage(self, usage: Usage) -> bool:
        """The final usage. Returns False and changes nothing if its cost is implausibly high."""
        if not self._charge(usage):
            return False
        self.usage = usage
        return True

    def _charge(self, usage: Usage) -> bool:
        nanousd = self._cost(usage)
        if nanousd > MAX_NANOUSD:
            return False
        self.nanousd = nanousd
        self.input_tokens, self.output_tokens = usage.input, usage.output
        return True

    def apply_partial_usage(self, usage: Usage) -> None:
        """For a response that was cut: the larger of the reserved cost and the reported cost.

        The output counts as reserved, because the provider may have generated more than it sent.
        """
        usage = msgspec.structs.replace(usage, output=max(usage.output, self.output_tokens))
        if self._cost(usage) > self.nanousd:
            self._charge(usage)

    def _cost(self, usage: Usage) -> int:
        return self._price.cost(usage) if self._price else 0


class Budget:
    def __init__(self, ledger: Ledger, on_exceeded: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._on_exceeded = on_exceeded
        self._overdrawn: str | None = None
        # One reservation at a time, so that the sum of open charges is known when one fails.
        self._lock = asyncio.Lock()
        self._open_charges: dict[Charge, int] = {}
        self._settled = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def applies(self) -> bool:
        return self._ledger.has_limit

    async def reserve(self, call: Call, price: Price | None) -> Charge:
        """Raises RequestRefused and calls `on_exceeded` if the budget cannot cover the call."""
        while True:
            if self._overdrawn is not None:
                raise RequestRefused(402, "budget_exceeded", self._overdrawn)
            settled = self._settled
            try:
                return await self._admit(call, price)
            except BudgetExceeded as exceeded:
                reserved = sum(self._open_charges.values())
                if not settled.is_set() and exceeded.missing_nanousd > reserved:
                    self._on_exceeded(str(exceeded))
                    raise RequestRefused(402, "budget_exceeded", str(exceeded)) from None
            await settled.wait()

    async def _admit(self, call: Call, price: Price | None) -> Charge:
        """If the client disconnects meanwhile, its reservation is returned."""
        attempt = asyncio.create_task(self._reserve_charge(call, price))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            self._track(attempt)
            attempt.add_done_callback(self._return_reservation)
            raise

    def _return_reservation(self, attempt: "asyncio.Task[Charge]") -> None:
        if not (attempt.cancelled() or attempt.exception()):
            attempt.result().waive()
            self.settle(attempt.result())

    async def _reserve_charge(self, call: Call, price: Price | None) -> Charge:
        async with self._lock:
            reservation = await self._reserve(_check_cost(call.cost(price)))
            charge = Charge(call, price, reservation)
            self._open_charges[charge] = reservation.nanousd
            return charge

    async def _reserve(self, nanousd: int) -> Reservation:
        try:
            return await self._ledger.reserve(nanousd)
        except StoreUnavailable:
            message = "the service's database is temporarily unavailable; try again"
            raise RequestRefused(503, "unavailable", message, is_retryable=True) from None

    def settle(self, charge: Charge) -> None:
        """Settle in the background."""
        self._track(asyncio.create_task(self._settle(charge)))

    async def close(self, seconds: float) -> None:
        """Wait for open settlements; those that take longer stay charged as reserved."""
        try:
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            for task in self._tasks:
                task.cancel()

    def _exceed(self, reason: str) -> None:
        """Reported once, although later responses may exceed the limit again."""
        if self._overdrawn is None:
            self._overdrawn = reason
            self._on_exceeded(reason)

    def _track(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, charge: Charge) -> None:
        try:
            overdrawn = await self._ledger.settle(
                charge.reservation,
                nanousd=charge.nanousd,
                input_tokens=charge.input_tokens,
                output_tokens=charge.output_tokens,
            )
            if overdrawn is not None:
                self._exceed(overdrawn)
        except StoreError as error:
            # No retry: if the first attempt was committed, a second one would correct it twice.
            _log.warning("a model request stays charged at its reserved cost: %s", error)
        finally:
            del self._open_charges[charge]
            self._settled.set()
            self._settled = asyncio.Event()


def _check_cost(nanousd: int) -> int:
    if nanousd > MAX_NANOUSD:
        message = "this request could cost more than a million dollars: lower its output limit"
        raise RequestRefused(400, "invalid_request", message)
    return nanousd
