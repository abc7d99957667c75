"""Writes down what attempts came to, in batches: while one is being committed the next gathers.

Keeps what is not certain to be stored until it is. Sends and claims nothing.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.claim import release
from agentjobs.webhooks.model import ClaimedDelivery
from agentjobs.webhooks.record import Disabled, Finished, record

_log = logging.getLogger(__name__)


class _Written(msgspec.Struct, frozen=True):
    finished: tuple[Finished, ...]
    unsent: tuple[ClaimedDelivery, ...]
    disabled: list[Disabled]


class Recorder:
    def __init__(
        self, db: Database, owner: str, disable_days: float, on_recorded: Callable[[], None]
    ) -> None:
        self._db = db
        self._owner = owner
        self._disable_days = disable_days
        self._on_recorded = on_recorded
        self._finished: list[Finished] = []
        self._unsent: list[ClaimedDelivery] = []
        self._stir = asyncio.Event()

    def add(self, finished: Finished) -> None:
        self._finished.append(finished)
        self._stir.set()

    def give_back(self, delivery: ClaimedDelivery) -> None:
        """It was not sent after all: anybody may take it."""
        self._unsent.append(delivery)
        self._stir.set()

    @property
    def in_hand(self) -> list[str]:
        return [*(one.delivery.id for one in self._finished), *(one.id for one in self._unsent)]

    async def run(self) -> None:
        """For ever. What is not recorded when it fails is kept for when it is run again."""
        # What an earlier run left.
        self._stir.set()
        while True:
            await self._stir.wait()
            await self.write_down()
            self._on_recorded()

    async def write_down(self) -> None:
        self._stir.clear()
        written = await self._db.transact(self._write)
        del self._finished[: len(written.finished)], self._unsent[: len(written.unsent)]
        _tell(written)

    async def _write(self, tx: Transaction) -> _Written:
        finished, unsent = tuple(self._finished), tuple(self._unsent)
        disabled = await record(tx, finished, owner=self._owner, disable_days=self._disable_days)
        if unsent:
            await release(tx, unsent, self._owner)
        return _Written(finished, unsent, disabled)


def _tell(written: _Written) -> None:
    for one in written.finished:
        if one.verdict.status == "failed":
            fields = {**one.delivery.names, "error_class": one.attempt.error_class}
            _log.info("a delivery was given up", extra={"fields": fields})
    for each in written.disabled:
        fields = {"endpoint_id": each.endpoint_id, "reason": each.reason}
        _log.warning("a webhook endpoint was disabled", extra={"fields": fields})
