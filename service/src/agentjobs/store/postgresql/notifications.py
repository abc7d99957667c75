"""The connection that exchanges notifications of changes with other processes (LISTEN, NOTIFY).

While it is down or unresponsive, `changes.live` is False; afterwards everything counts as changed.
"""

import asyncio
import logging
import random
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from agentjobs.store.changes import EVERYTHING, Changes
from agentjobs.store.database import StoreError
from agentjobs.store.postgresql.connection import Connection, close, translate
from agentjobs.store.postgresql.watched_topics import ASK_SECONDS, WatchedTopics, is_watchable
from agentjobs_runtime.outage_log import outages

CHANNEL = "agentjobs"
MIN_INTERVAL_SECONDS = 0.02
"""PostgreSQL serializes commits that notify, so topics are batched and throttled."""
_INTERVAL_PER_PROCESS_SECONDS = 0.001
"""A notification wakes every process of the fleet, so many processes send fewer."""
_DELAY_PER_PROCESS_SECONDS = 0.005
_MAX_DELAY_SECONDS = 0.25
"""How long topics that no other process needs at once wait for others."""
_HEARTBEAT_SECONDS = 0.4
_ANSWER_SECONDS = 0.45
"""Both together are below a second, the longest time that a cache may be stale."""
_USED_SECONDS = 5.0
"""How long caches count as used; afterwards, their next use waits for a ping."""
_IDLE_HEARTBEAT_SECONDS = 2.0
"""For a process that uses no cache, such as a worker: a fleet of them would ping all the time."""
_GIVE_UP_SECONDS = 5.0
"""How long a slow server keeps its connection."""
_FIRST_RETRY_SECONDS = 0.1
_MAX_RETRY_SECONDS = 5.0
_TOPICS_PER_NOTIFICATION = 100
_ASK = "?"
"""Before a topic that this process watches."""

_log = logging.getLogger(__name__)


class Notifications:
    """Uses a connection of its own and reconnects when it is lost."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], changes: Changes) -> None:
        self._connect = connect
        self._changes = changes
        self._origin = secrets.token_hex(8)
        self._number = 0
        self._pending: set[str] = set()
        self._left: set[str] = set()
        """Topics that the subscriber here may still pass on."""
        self._watched = WatchedTopics()
        self._ask_at = 0.0
        self._heard_at = 0.0
        self._caches_used_at = -_USED_SECONDS
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._listen()
        self._changes.on_subscribed = self._ask_for
        self._changes.is_confirmed = self._is_confirmed
        self._changes.pass_on = self._pass_on
        self._task = asyncio.create_task(self._run(), name="postgresql-notices")

    async def close(self) -> None:
        """Send pending topics if the connection is up, and close it."""
        self._cancel_timer()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._connection is not None and not self._connection.is_closed():
            self._connection.remove_termination_listener(self._on_connection_lost)
            if self._pending:
                await self._send_or_ping()
            await close(self._connection, _GIVE_UP_SECONDS)

    def notify(self, topics: Iterable[str]) -> None:
        """Send the topics soon that other processes need to know, batched with others."""
        topics = set(topics)
        left = {topic for topic in topics if self._changes.is_left_to_subscriber(topic)}
        self._left |= left
        if needed := self._watched.select(topics - left):
            self._send_soon(*needed)

    def _pass_on(self, topic: str) -> None:
        """Only what this process announced: the others already know the rest."""
        if topic in self._left:
            self._left.remove(topic)
            self._send_soon(topic)

    def _send_soon(self, *topics: str) -> None:
        self._pending.update(topics)
        if self._changes.processes == 1 or not all(map(self._can_wait, topics)):
            self._wake.set()
        elif self._timer is None:
            delay = min(self._changes.processes * _DELAY_PER_PROCESS_SECONDS, _MAX_DELAY_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake.set)

    def _can_wait(self, topic: str) -> bool:
        """Topics of one job or organization are for those who watch it. Work that this process
        takes itself is only announced to others in case it is too much."""
        return is_watchable(topic) or self._changes.is_taken_here(topic)

    def _is_confirmed(self) -> bool:
        """Called before each use of a cache, so that an idle process need not ping all the time."""
        # Not the event loop's time, which stands still while the loop is busy.
        now = self._caches_used_at = time.monotonic()
        if now < self._heard_at + _HEARTBEAT_SECONDS + _ANSWER_SECONDS:
            return True
        self._wake.set()
        return False

    def _ask_for(self, *topics: str) -> None:
        """Have the others notify this process of topics that it watches."""
        if asked := {f"{_ASK}{topic}" for topic in topics if is_watchable(topic)}:
            self._pending |= asked
            self._wake.set()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def payloads(self, topics: Iterable[str]) -> Iterator[str]:
        """The payloads for the channel. The origin lets this process ignore its own."""
        ordered = sorted(topics)
        for start in range(0, len(ordered), _TOPICS_PER_NOTIFICATION):
            self._number += 1
            source = f"{self._origin}#{self._number}"
            yield " ".join([source, *ordered[start : start + _TOPICS_PER_NOTIFICATION]])

    async def _run(self) -> None:
        while True:
            if self._connection is None or self._connection.is_closed():
                await self._reconnect()
            await self._wait_for_wake()
            self._ask_again()
            if await self._send_or_ping():
                interval = self._changes.processes * _INTERVAL_PER_PROCESS_SECONDS
                await asyncio.sleep(max(interval, MIN_INTERVAL_SECONDS))

    async def _wait_for_wake(self) -> None:
        """Or until nothing was heard for a heartbeat, or it is time to ask again."""
        now = asyncio.get_running_loop().time
        while (seconds := min(self._ping_at, self._ask_at) - now()) > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue
            break
        self._wake.clear()

    @property
    def _ping_at(self) -> float:
        is_used = self._heard_at < self._caches_used_at + _USED_SECONDS
        return self._heard_at + (_HEARTBEAT_SECONDS if is_used else _IDLE_HEARTBEAT_SECONDS)

    def _ask_again(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._ask_at:
            self._ask_at = now + ASK_SECONDS
            self._ask_for(*self._changes.topics)

    async def _send_or_ping(self) -> bool:
        """Send pending topics, or a ping if there are none; returns whether there were some."""
        self._cancel_timer()
        connection, topics, self._pending = self._connection, self._pending, set()
        if connection is None or connection.is_closed():
            self._pending |= topics
            return True
        silence = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._mark_stale)
        sent_at = time.monotonic()
        try:
            for payload in self.payloads(topics):
                await connection.execute(
                    "SELECT pg_notify($1, $2)", CHANNEL, payload, timeout=_GIVE_UP_SECONDS
                )
            if not topics:
                await connection.execute("SELECT 1", timeout=_GIVE_UP_SECONDS)
            # The response confirms only what the server sent before it.
            self._heard_at = sent_at
            self._mark_live()
        except BaseException as error:
            self._pending |= topics
            if not isinstance(error, Exception):
                raise
            connection.terminate()
            self._on_connection_lost()
        finally:
            silence.cancel()
        return bool(topics)

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            await connection.add_listener(CHANNEL, self._on_notification)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, Exception):
                raise translate(error, connection) from error
            raise
        self._connection = connection
        connection.add_termination_listener(self._on_connection_lost)

    async def _reconnect(self) -> None:
        self._changes.live = False
        pause_seconds = _FIRST_RETRY_SECONDS
        while True:
            try:
                await self._listen()
                break
            except StoreError as error:
                outages.report("notifications", error)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, _MAX_RETRY_SECONDS)
        _log.info("listening for changes of other processes again")
        self._watched.forget()
        self._ask_at = 0.0
        self._wake.set()
        self._mark_live()

    def _mark_stale(self) -> None:
        self._changes.live = False

    def _mark_live(self) -> None:
        if not self._changes.live:
            self._changes.publish(EVERYTHING, number=random.getrandbits(32))
            self._changes.live = True

    def _on_connection_lost(self, *_: Any) -> None:
        self._changes.live = False
        self._wake.set()

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._heard_at = time.monotonic()
        source, *topics = str(payload).split()
        if source.partition("#")[0] == self._origin:
            return
        asked = {topic.removeprefix(_ASK) for topic in topics if topic.startswith(_ASK)}
        if changed := self._watched.add(asked):
            self._pending |= changed
            self._wake.set()
        self._changes.publish(*topics, number=zlib.crc32(source.encode()))
