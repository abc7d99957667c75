"""One job's way to its budget: reserves, waits for what is open, settles in the background.

A request that does not fit only because others of the same job are under way waits for them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from agentjobs.gateway.calls import Call
from agentjobs.gateway.errors import RequestRefused
from agentjobs.gateway.ledger import Ledger, Refusal, Reservation
from agentjobs.gateway.prices import Price
from agentjobs.gateway.usage import Usage
from agentjobs.store.database import StoreError, StoreUnavailable

_log = logging.getLogger(__name__)

MAX_NANOUSD = 10**15
"""A million dollars for one request: sums of what is less do not outgrow the store's numbers."""


class Charge:
    """What one request costs: its reservation, until something better is known."""

    def __init__(self, call: Call, price: Price | None, reservation: Reservation) -> None:
        self.reservation = reservation
        self.nanousd = reservation.nanousd
        self.input_tokens = call.input_tokens
        self.output_tokens = call.output_tokens
        self._price = price

    def nothing(self) -> None:
        self.nanousd = self.input_tokens = self.output_tokens = 0

    def used(self, usage: Usage) -> bool:
        """False, and nothing changes, where that would cost more than can be meant."""
        nanousd = self._price.of(usage) if self._price else 0
        if nanousd > MAX_NANOUSD:
            return False
        self.nanousd = nanousd
        self.input_tokens, self.output_tokens = usage.input, usage.output
        return True


class Budget:
    def __init__(self, ledger: Ledger, on_exceeded: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._on_exceeded = on_exceeded
        self._overdrawn: str | None = None
        # One at a time, so that what others hold is known when one does not fit.
        self._turn = asyncio.Lock()
        self._open: dict[Charge, int] = {}
        self._settled = asyncio.Event()
        self._under_way: set[asyncio.Task[Any]] = set()

    @property
    def applies(self) -> bool:
        return self._ledger.limited

    async def reserve(self, call: Call, price: Price | None) -> Charge:
        """Raises RequestRefused, and tells of it, when the budget cannot cover the call."""
        while True:
            if self._overdrawn is not None:
                raise RequestRefused(402, "budget_exceeded", self._overdrawn)
            settled = self._settled
            answer = await self._admit(call, price)
            if isinstance(answer, Charge):
                return answer
            held = sum(self._open.values())
            if not settled.is_set() and answer.missing_nanousd > held:
                self._on_exceeded(answer.message)
                raise RequestRefused(402, "budget_exceeded", answer.message)
            await settled.wait()

    async def _admit(self, call: Call, price: Price | None) -> Charge | Refusal:
        """What is reserved for a client that leaves meanwhile is given back."""
        attempt = asyncio.create_task(self._open_one(call, price))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            self._keep(attempt)
            attempt.add_done_callback(self._give_back)
            raise

    def _give_back(self, attempt: "asyncio.Task[Charge | Refusal]") -> None:
        if attempt.cancelled() or attempt.exception():
            return
        answer = attempt.result()
        if isinstance(answer, Charge):
            answer.nothing()
            self.settle(answer)

    async def _open_one(self, call: Call, price: Price | None) -> Charge | Refusal:
        async with self._turn:
            answer = await self._try(_sensible(call.cost(price)))
            if isinstance(answer, Refusal):
                return answer
            charge = Charge(call, price, answer)
            self._open[charge] = answer.nanousd
            return charge

    async def _try(self, nanousd: int) -> Reservation | Refusal:
        try:
            return await self._ledger.reserve(nanousd)
        except StoreUnavailable:
            message = "the service's database is away for the moment; try again"
            raise RequestRefused(503, "unavailable", message, again=True) from None

    def settle(self, charge: Charge) -> None:
        """Without making anybody wait."""
        self._keep(asyncio.create_task(self._settle(charge)))

    async def close(self, seconds: float) -> None:
        """Wait for what is being settled; what takes longer stays charged as reserved."""
        try:
            async with asyncio.timeout(seconds):
                while self._under_way:
                    await asyncio.wait(self._under_way)
        except TimeoutError:
            for task in self._under_way:
                task.cancel()

    def _end(self, why: str) -> None:
        """Told once, though every further answer that comes may pass the limit again."""
        if self._overdrawn is None:
            self._overdrawn = why
            self._on_exceeded(why)

    def _keep(self, task: "asyncio.Task[Any]") -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _settle(self, charge: Charge) -> None:
        try:
            overdrawn = await self._ledger.settle(
                charge.reservation,
                nanousd=charge.nanousd,
                input_tokens=charge.input_tokens,
                output_tokens=charge.output_tokens,
            )
            if overdrawn is not None:
                self._end(overdrawn)
        except StoreError as error:
            # Not again: had it been written after all, a second time would give money back.
            _log.warning("a model request stays charged as reserved: %s", error)
        finally:
            del self._open[charge]
            self._settled.set()
            self._settled = asyncio.Event()


def _sensible(nanousd: int) -> int:
    if nanousd > MAX_NANOUSD:
        message = "this request may cost more than a million dollars: ask for less output"
        raise RequestRefused(400, "invalid_request", message)
    return nanousd
