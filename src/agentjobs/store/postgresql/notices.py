"""The one connection on which this process hears what others changed, and tells them what it did.

While it is down or silent `changes.live` is False; then everything counts as changed.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from agentjobs.store.changes import EVERYTHING, Changes
from agentjobs.store.database import StoreError
from agentjobs.store.postgresql.connection import Connection, close, translate

CHANNEL = "agentjobs"
QUIET_SECONDS = 0.02
"""PostgreSQL serialises commits that notify: one for many topics, and not too often."""
_HEARTBEAT_SECONDS = 0.4
_ANSWER_SECONDS = 0.45
"""Together below a second, for which a cache may be wrong: without an answer none is trusted."""
_GIVE_UP_SECONDS = 5.0
"""A server that is only slow keeps its listener until then."""
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 5.0
_TOPICS_PER_NOTICE = 100

_log = logging.getLogger(__name__)


class Notices:
    """Listens and tells on a connection of its own, which it replaces when it is lost."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], changes: Changes) -> None:
        self._connect = connect
        self._changes = changes
        self._origin = secrets.token_hex(8)
        self._untold: set[str] = set()
        self._stir = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._listen()
        self._task = asyncio.create_task(self._run(), name="postgresql-notices")

    async def close(self) -> None:
        """Tell what is still untold, as far as there is somebody to tell it to."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._connection is not None and not self._connection.is_closed():
            self._connection.remove_termination_listener(self._lost)
            if self._untold:
                await self._tell_or_check()
            await close(self._connection, _GIVE_UP_SECONDS)

    def tell(self, topics: Iterable[str]) -> None:
        """Soon, in one notice with others."""
        self._untold.update(topics)
        self._stir.set()

    def payloads(self, topics: Iterable[str]) -> Iterator[str]:
        """What to say on the channel; the origin lets this process ignore itself."""
        ordered = sorted(topics)
        for start in range(0, len(ordered), _TOPICS_PER_NOTICE):
            yield " ".join([self._origin, *ordered[start : start + _TOPICS_PER_NOTICE]])

    async def _run(self) -> None:
        while True:
            if self._connection is None or self._connection.is_closed():
                await self._listen_again()
            await self._wait_for_a_stir()
            await self._tell_or_check()
            await asyncio.sleep(QUIET_SECONDS)

    async def _wait_for_a_stir(self) -> None:
        try:
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                await self._stir.wait()
        except TimeoutError:
            return
        self._stir.clear()

    async def _tell_or_check(self) -> None:
        """Say what is untold; with nothing to say, ask whether anybody is there."""
        connection, topics, self._untold = self._connection, self._untold, set()
        if connection is None or connection.is_closed():
            self._untold |= topics
            return
        silence = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._distrust)
        try:
            for payload in self.payloads(topics):
                await connection.execute(
                    "SELECT pg_notify($1, $2)", CHANNEL, payload, timeout=_GIVE_UP_SECONDS
                )
            if not topics:
                await connection.execute("SELECT 1", timeout=_GIVE_UP_SECONDS)
            self._trust_again()
        except BaseException as error:
            self._untold |= topics
            if not isinstance(error, Exception):
                raise
            connection.terminate()
            self._lost()
        finally:
            silence.cancel()

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            await connection.add_listener(CHANNEL, self._heard)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, Exception):
                raise translate(error, connection) from error
            raise
        self._connection = connection
        connection.add_termination_listener(self._lost)

    async def _listen_again(self) -> None:
        self._changes.live = False
        pause_seconds = _FIRST_RETRY_SECONDS
        while True:
            try:
                await self._listen()
                break
            except StoreError as error:
                _log.warning("changes of other processes cannot be heard: %s", error)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, _LONGEST_RETRY_SECONDS)
        _log.info("changes of other processes are heard again")
        self._stir.set()
        self._trust_again()

    def _distrust(self) -> None:
        self._changes.live = False

    def _trust_again(self) -> None:
        if not self._changes.live:
            self._changes.publish(EVERYTHING)
            self._changes.live = True

    def _lost(self, *_: Any) -> None:
        self._changes.live = False
        self._stir.set()

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        origin, *topics = str(payload).split()
        if origin != self._origin:
            self._changes.publish(*topics)
