"""Sends what waits: one transaction at a time that records what ended and claims what is next.

Attempts run outside of it, side by side. While a transaction waits for its commit attempts go on
ending: the busier a sender is, the larger are its batches.
"""

import asyncio
import contextlib
import logging

import msgspec

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.identifiers import new_id
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.claim import Claimed, Terms, claim, release, release_all
from agentjobs.webhooks.connections import Connections
from agentjobs.webhooks.events import PING, TOPIC
from agentjobs.webhooks.failures import OutOfRoom
from agentjobs.webhooks.lanes import Kind, Lane, Lanes
from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs.webhooks.record import Disabled, Finished, record
from agentjobs.webhooks.rotation import SecretBox
from agentjobs.webhooks.schedule import judge
from agentjobs.webhooks.send import send
from agentjobs.webhooks.timetable import Timetable
from agentjobs.webhooks.upkeep import keep_up

_UPKEEP_MS = 2_000
# For how long endpoints are left to others whose secrets this machine cannot open.
_LOCKED_MS = 60_000
# For how long a machine without files or memory to spare sends nothing more.
_PAUSE_MS = 1_000

_log = logging.getLogger(__name__)


class _Turn(msgspec.Struct, frozen=True):
    finished: tuple[Finished, ...]
    unsent: tuple[ClaimedDelivery, ...]
    disabled: list[Disabled]
    claimed: dict[Kind, Claimed]


class Sender:
    def __init__(
        self, db: Database, secrets: SecretBox, connections: Connections, settings: Settings
    ) -> None:
        self.id = new_id("snd")
        self._db = db
        self._secrets = secrets
        self._connections = connections
        self._settings = settings
        self._lease_ms = round(settings.webhook_lease_seconds * SECOND_MS)
        self._lanes = Lanes(settings.webhook_concurrency, settings.webhook_endpoint_concurrency)
        self._under_way: dict[asyncio.Task[None], ClaimedDelivery] = {}
        # Ended and not recorded; claimed, and to be given back.
        self._finished: list[Finished] = []
        self._unsent: list[ClaimedDelivery] = []
        self._locked_until: dict[str, int] = {}
        self._paused_until = 0
        # Where the next turn goes on among the endpoints.
        self._after: dict[Kind, str] = {"first": "", "retry": ""}
        self._timetable = Timetable()
        self._next_upkeep = 0
        self._stir = asyncio.Event()

    async def run(self) -> None:
        """For ever. What is not recorded when it fails is kept for when it is run again."""
        stop_listening = self._db.changes.on(TOPIC, self._stir.set)
        try:
            while True:
                self._stir.clear()
                await self._turn(now_ms())
                await self._upkeep(now_ms())
                await self._wait()
        finally:
            stop_listening()

    async def drain(self, within_seconds: float, hurry: asyncio.Event) -> None:
        """Let attempts end, record them, and give back those that did not end in time."""
        all_ended = asyncio.create_task(self._all_ended())
        cut_short = asyncio.create_task(hurry.wait())
        await asyncio.wait(
            {all_ended, cut_short}, timeout=within_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        cut_short.cancel()
        for task in self._under_way:
            task.cancel()
        await all_ended
        await self._db.transact(self._write_down)
        await self._db.transact(release_all, self.id)

    async def _all_ended(self) -> None:
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _turn(self, now: int) -> None:
        turn = await self._db.transact(self._write_down_and_claim, now, self._kinds(now))
        del self._finished[: len(turn.finished)], self._unsent[: len(turn.unsent)]
        _tell(turn)
        if "retry" in turn.claimed:
            self._timetable.looked(now)
        for kind, claimed in turn.claimed.items():
            self._after[kind] = claimed.after
            for lane, delivery in claimed.deliveries:
                self._start(lane, delivery)
            if claimed.there_is_more:
                self._look_again(kind)

    def _kinds(self, now: int) -> list[Kind]:
        if now < self._paused_until:
            return []
        return ["first", "retry"] if self._timetable.next_look <= now else ["first"]

    async def _write_down_and_claim(self, tx: Transaction, now: int, kinds: list[Kind]) -> _Turn:
        written = await self._write_down(tx)
        without = frozenset(each for each, until in self._locked_until.items() if until > now)
        terms = Terms(owner=self.id, lease_ms=self._lease_ms, now=now, without=without)
        claimed = {
            kind: await claim(tx, kind, self._lanes, terms, self._after[kind]) for kind in kinds
        }
        return msgspec.structs.replace(written, claimed=claimed)

    async def _write_down(self, tx: Transaction) -> _Turn:
        finished, unsent = tuple(self._finished), tuple(self._unsent)
        days = self._settings.webhook_disable_days
        disabled = await record(tx, finished, owner=self.id, disable_days=days)
        await release(tx, unsent, self.id)
        return _Turn(finished, unsent, disabled, {})

    def _look_again(self, kind: Kind) -> None:
        if kind == "retry":
            self._timetable.look_soon()
        if self._lanes.room(kind) > 0:
            self._stir.set()

    def _start(self, lane: Lane, delivery: ClaimedDelivery) -> None:
        place = (lane, delivery.endpoint_id, delivery.organization_id)
        self._lanes.enter(*place)
        task = asyncio.create_task(self._send(delivery))
        self._under_way[task] = delivery

        def ended(task: asyncio.Task[None]) -> None:
            del self._under_way[task]
            self._lanes.leave(*place)
            self._look_again(lane.kind)
            if task.cancelled():
                self._unsent.append(delivery)
            elif error := task.exception():
                # Its lease ends by itself, and it is tried again then.
                fields = {"fields": _names(delivery)}
                _log.error("an attempt broke", exc_info=error, extra=fields)

        task.add_done_callback(ended)

    async def _send(self, delivery: ClaimedDelivery) -> None:
        try:
            attempt = await send(delivery, self._secrets, self._connections)
        except Problem as problem:
            self._lock_out(delivery, problem)
        except OutOfRoom as shortage:
            self._pause(delivery, shortage)
        else:
            self._finish(delivery, attempt)

    def _finish(self, delivery: ClaimedDelivery, attempt: Attempt) -> None:
        self._lanes.learn(delivery.endpoint_id, attempt.duration_ms)
        retry_seconds = () if delivery.event == PING else self._settings.webhook_retry_seconds
        verdict = judge(attempt, delivery.failures, retry_seconds)
        if verdict.due_at is not None:
            self._timetable.note(verdict.due_at)
        self._finished.append(Finished(delivery, attempt, verdict))

    def _lock_out(self, delivery: ClaimedDelivery, problem: Problem) -> None:
        """Another machine may have the key: the delivery is left to it."""
        self._unsent.append(delivery)
        if delivery.endpoint_id not in self._locked_until:
            _log.warning("%s", problem.message, extra={"fields": _names(delivery)})
        self._locked_until[delivery.endpoint_id] = now_ms() + _LOCKED_MS

    def _pause(self, delivery: ClaimedDelivery, shortage: OutOfRoom) -> None:
        self._unsent.append(delivery)
        if now_ms() >= self._paused_until:
            _log.warning("webhooks pause for a moment: %s", shortage)
        self._paused_until = now_ms() + _PAUSE_MS

    async def _wait(self) -> None:
        wake_at = max(self._timetable.next_look, self._paused_until)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0, wake_at - now_ms()) / SECOND_MS):
                await self._stir.wait()

    async def _upkeep(self, now: int) -> None:
        if now < self._next_upkeep:
            return
        held = [*self._under_way.values(), *(one.delivery for one in self._finished), *self._unsent]
        there_is_more = await keep_up(self._db, [one.id for one in held])
        self._next_upkeep = 0 if there_is_more else now + _UPKEEP_MS


def _tell(turn: _Turn) -> None:
    for one in turn.finished:
        if one.verdict.status == "failed":
            fields = {**_names(one.delivery), "error_class": one.attempt.error_class}
            _log.info("a delivery was given up", extra={"fields": fields})
    for each in turn.disabled:
        fields = {"endpoint_id": each.endpoint_id, "reason": each.reason}
        _log.warning("a webhook endpoint was disabled", extra={"fields": fields})


def _names(delivery: ClaimedDelivery) -> dict[str, str | None]:
    return {"delivery_id": delivery.id, "endpoint_id": delivery.endpoint_id}
