"""Sends what waits: claims it under a lease, attempts it side by side, hands on what came of it.

Attempts run outside any transaction. Claims and records are transactions of their own, one of each
at a time: the busier a sender is, the larger are its batches.
"""

import asyncio
import logging

from agentjobs.clock import SECOND_MS, elapsed_ms, now_ms
from agentjobs.identifiers import new_id
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.claim import Claimed, Terms, claim, release_all
from agentjobs.webhooks.concurrency import Kind, Lane, Lanes
from agentjobs.webhooks.connections import Connections
from agentjobs.webhooks.events import PING, TOPIC
from agentjobs.webhooks.failures import OutOfRoom
from agentjobs.webhooks.fairness import Cursor
from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs.webhooks.record import Finished
from agentjobs.webhooks.recorder import Recorder
from agentjobs.webhooks.retry_policy import judge
from agentjobs.webhooks.retry_schedule import Timetable
from agentjobs.webhooks.send import send
from agentjobs.webhooks.signing_secrets import SecretBox
from agentjobs.webhooks.upkeep import keep_up

_UPKEEP_MS = 2_000
# For how long endpoints are left to others whose secrets this machine cannot open.
_LOCKED_MS = 60_000
# For how long a machine without files or memory to spare sends nothing more.
_PAUSE_MS = 1_000
# What recording takes after the answer's head, its body included.
_MARGIN_MS = 3_000
# Turns without a pause in which nothing was found, for all that there was more to look at.
_MOST_EMPTY_TURNS = 32

_log = logging.getLogger(__name__)


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
        timeout_ms = round(settings.webhook_timeout_seconds * SECOND_MS)
        self._longest_delay_ms = self._lease_ms - timeout_ms - _MARGIN_MS
        self._lanes = Lanes(settings.webhook_concurrency, settings.webhook_endpoint_concurrency)
        self._under_way: dict[asyncio.Task[None], ClaimedDelivery] = {}
        self._stir = asyncio.Event()
        # What follows an event in its job's order can be claimed once its attempt is recorded.
        self.recorder = Recorder(db, self.id, settings.webhook_disable_days, self._stir.set)
        self._locked_until: dict[str, int] = {}
        self._paused_until = 0
        self._cursors: dict[Kind, Cursor] = {"first": Cursor(), "retry": Cursor()}
        self._empty_turns = 0
        self._timetable = Timetable()
        self._next_upkeep = 0

    async def run(self) -> None:
        """For ever, while `recorder.run` does the other half."""
        stop_listening = self._db.changes.on(TOPIC, self._stir.set)
        try:
            while True:
                self._stir.clear()
                await self._turn()
                await self._upkeep()
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
        await self.recorder.write_down()
        await self._db.transact(release_all, self.id)

    async def _all_ended(self) -> None:
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _turn(self) -> None:
        began = elapsed_ms()
        claimed = await self._db.transact(self._claim, self._kinds())
        if "retry" in claimed:
            self._timetable.looked()
        taken = [one for each in claimed.values() for one in each.deliveries]
        for lane, delivery in taken:
            self._start(lane, delivery, began)
        self._empty_turns = 0 if taken else self._empty_turns + 1
        for kind, each in claimed.items():
            if each.there_is_more and self._empty_turns < _MOST_EMPTY_TURNS:
                self._look_again(kind)

    def _kinds(self) -> list[Kind]:
        if elapsed_ms() < self._paused_until:
            return []
        return ["first"] if self._timetable.wait_ms else ["first", "retry"]

    async def _claim(self, tx: Transaction, kinds: list[Kind]) -> dict[Kind, Claimed]:
        elapsed = elapsed_ms()
        without = frozenset(each for each, until in self._locked_until.items() if until > elapsed)
        terms = Terms(owner=self.id, lease_ms=self._lease_ms, now=now_ms(), without=without)
        return {
            kind: await claim(tx, kind, self._lanes, terms, self._cursors[kind]) for kind in kinds
        }

    def _look_again(self, kind: Kind) -> None:
        if kind == "retry":
            self._timetable.look_soon()
        self._stir.set()

    def _start(self, lane: Lane, delivery: ClaimedDelivery, claimed_at: int) -> None:
        if elapsed_ms() - claimed_at > self._longest_delay_ms:
            # Its lease could end before the attempt does: another may have it already.
            self.recorder.give_back(delivery)
            return
        self._lanes.enter(lane, delivery.endpoint_id, delivery.organization_id)
        task = asyncio.create_task(self._send(delivery))
        self._under_way[task] = delivery
        task.add_done_callback(lambda ended: self._ended(ended, lane))

    def _ended(self, task: asyncio.Task[None], lane: Lane) -> None:
        delivery = self._under_way.pop(task)
        if self._lanes.leave(lane, delivery.endpoint_id, delivery.organization_id):
            self._look_again(lane.kind)
        if task.cancelled():
            self.recorder.give_back(delivery)
        elif error := task.exception():
            # Its lease ends by itself, and it is tried again then.
            fields = {"fields": delivery.names}
            _log.error("an attempt broke", exc_info=error, extra=fields)

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
        self.recorder.add(Finished(delivery, attempt, verdict))

    def _lock_out(self, delivery: ClaimedDelivery, problem: Problem) -> None:
        """Another machine may have the key: the delivery is left to it."""
        self.recorder.give_back(delivery)
        if delivery.endpoint_id not in self._locked_until:
            _log.warning("%s", problem.message, extra={"fields": delivery.names})
        self._locked_until[delivery.endpoint_id] = elapsed_ms() + _LOCKED_MS

    def _pause(self, delivery: ClaimedDelivery, shortage: OutOfRoom) -> None:
        self.recorder.give_back(delivery)
        if elapsed_ms() >= self._paused_until:
            _log.warning("webhooks pause for a moment: %s", shortage)
        self._paused_until = elapsed_ms() + _PAUSE_MS

    async def _wait(self) -> None:
        milliseconds = max(self._timetable.wait_ms, self._paused_until - elapsed_ms())
        try:
            async with asyncio.timeout(milliseconds / SECOND_MS):
                await self._stir.wait()
        except TimeoutError:
            self._empty_turns = 0

    async def _upkeep(self) -> None:
        if elapsed_ms() < self._next_upkeep:
            return
        in_hand = [*(one.id for one in self._under_way.values()), *self.recorder.in_hand]
        there_is_more = await keep_up(self._db, in_hand)
        self._next_upkeep = 0 if there_is_more else elapsed_ms() + _UPKEEP_MS
