"""Resolves host names on threads, so that one owner's slow names cannot block another's.

uvloop resolves all names on two threads, and an executor joins its threads at shutdown. Therefore
each lookup gets its own daemon thread. Which addresses may be dialled is decided elsewhere.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final

Lookup = Callable[[str], Sequence[str]]
_Result = Sequence[str] | Exception

MAX_JOB_LOOKUPS = 4
# A thread lives as long as the system's resolver takes, even after its job has ended.
_JOB_THREADS: Final = threading.Semaphore(256)


def system_lookup(host: str) -> Sequence[str]:
    """Only address families that this machine has. Blocks; raises OSError or UnicodeError."""
    results = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for _, _, _, _, address in results]


class HostResolver:
    """Runs up to `max_lookups` of one owner at once.

    Owners share `threads`. When these are used up, each owner can still run one lookup.
    """

    def __init__(self, lookup: Lookup, max_lookups: int, threads: threading.Semaphore) -> None:
        self._lookup = lookup
        self._max_lookups = max_lookups
        self._threads = threads
        self._in_progress: dict[str, asyncio.Future[_Result]] = {}
        self._lookup_ended = asyncio.Event()

    async def resolve(self, host: str) -> Sequence[str]:
        """Has no timeout; callers cancel it. Raises OSError or UnicodeError."""
        if _is_address(host):
            return [host]
        future = await self._join_or_start(host)
        # If the caller gives up, the thread continues and serves the next caller for this name.
        await asyncio.wait({future})
        result = future.result()
        if isinstance(result, Exception):
            raise result
        return result

    async def _join_or_start(self, host: str) -> "asyncio.Future[_Result]":
        while (future := self._in_progress.get(host)) is None:
            if (started := self._start(host)) is not None:
                return started
            self._lookup_ended.clear()
            await self._lookup_ended.wait()
        return future

    def _start(self, host: str) -> "asyncio.Future[_Result] | None":
        """None if the limit is reached."""
        if len(self._in_progress) >= self._max_lookups:
            return None
        is_counted = self._threads.acquire(blocking=False)
        if self._in_progress and not is_counted:
            return None
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self._on_ended(host))
        thread = threading.Thread(
            target=self._run, args=(host, future, is_counted), name="lookup", daemon=True
        )
        self._in_progress[host] = future
        try:
            thread.start()
        except RuntimeError:
            future.set_result(OSError("this machine cannot start another thread"))
            self._release_thread(is_counted)
        return future

    def _run(self, host: str, future: "asyncio.Future[_Result]", is_counted: bool) -> None:
        result: _Result
        try:
            result = self._lookup(host)
        except Exception as error:  # noqa: BLE001 - raised to the caller, on the other thread
            result = error
        self._release_thread(is_counted)
        # The event loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            future.get_loop().call_soon_threadsafe(future.set_result, result)

    def _release_thread(self, is_counted: bool) -> None:
        if is_counted:
            self._threads.release()

    def _on_ended(self, host: str) -> None:
        del self._in_progress[host]
        self._lookup_ended.set()


def new_job_resolver(lookup: Lookup) -> HostResolver:
    return HostResolver(lookup, MAX_JOB_LOOKUPS, _JOB_THREADS)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
