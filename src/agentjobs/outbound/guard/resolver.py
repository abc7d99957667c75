"""Addresses of names, on threads that one owner's slow names cannot take from another's.

uvloop looks all names up on two threads, and an executor waits for its own at the end: so each
lookup has a thread of its own, which nobody waits for. What may be dialled is judged elsewhere.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final

LookUp = Callable[[str], Sequence[str]]
_Found = Sequence[str] | Exception

LOOKUPS_OF_A_JOB = 4
# A thread stays as long as the system's resolver does, also after its job has ended.
_THREADS_OF_ALL_JOBS: Final = threading.Semaphore(256)


def system_addresses(host: str) -> Sequence[str]:
    """Of the families this machine has. Blocks; raises OSError or UnicodeError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for _, _, _, _, address in found]


class Lookups:
    """One owner's, `at_once` of them; only one when those it shares `threads` with have all."""

    def __init__(self, look_up: LookUp, at_once: int, threads: threading.Semaphore) -> None:
        self._look_up = look_up
        self._at_once = at_once
        self._threads = threads
        self._under_way: dict[str, asyncio.Future[_Found]] = {}
        self._one_ended = asyncio.Event()

    async def addresses(self, host: str) -> Sequence[str]:
        """As long as it takes, and may be given up; raises OSError or UnicodeError."""
        if _is_address(host):
            return [host]
        lookup = await self._lookup_of(host)
        # Its thread goes on when the caller gives up, and serves whoever asks for the name next.
        await asyncio.wait({lookup})
        found = lookup.result()
        if isinstance(found, Exception):
            raise found
        return found

    async def _lookup_of(self, host: str) -> "asyncio.Future[_Found]":
        while (lookup := self._under_way.get(host)) is None:
            if (begun := self._begin(host)) is not None:
                return begun
            self._one_ended.clear()
            await self._one_ended.wait()
        return lookup

    def _begin(self, host: str) -> "asyncio.Future[_Found] | None":
        if len(self._under_way) >= self._at_once:
            return None
        is_counted = self._threads.acquire(blocking=False)
        if self._under_way and not is_counted:
            return None
        lookup = asyncio.get_running_loop().create_future()
        lookup.add_done_callback(lambda _: self._end(host))
        thread = threading.Thread(
            target=self._run, args=(host, lookup, is_counted), name="lookup", daemon=True
        )
        self._under_way[host] = lookup
        try:
            thread.start()
        except RuntimeError:
            lookup.set_result(OSError("this machine has no thread left to look it up"))
            self._give_back(is_counted)
        return lookup

    def _run(self, host: str, lookup: "asyncio.Future[_Found]", is_counted: bool) -> None:
        found: _Found
        try:
            found = self._look_up(host)
        except Exception as error:  # noqa: BLE001 - it is the caller's, on the other thread
            found = error
        self._give_back(is_counted)
        # The loop may be gone by now, with all who waited.
        with contextlib.suppress(RuntimeError):
            lookup.get_loop().call_soon_threadsafe(lookup.set_result, found)

    def _give_back(self, is_counted: bool) -> None:
        if is_counted:
            self._threads.release()

    def _end(self, host: str) -> None:
        del self._under_way[host]
        self._one_ended.set()


def job_lookups(look_up: LookUp) -> Lookups:
    return Lookups(look_up, LOOKUPS_OF_A_JOB, _THREADS_OF_ALL_JOBS)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
