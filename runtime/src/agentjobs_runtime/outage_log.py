"""Logs an outage of the store once for the whole process, and its end with the failures it caused.

Every loop and every request notices an outage; a line for each would hide everything else.
"""

import logging
import threading
import time
from collections import Counter

# Operators filter by this name.
_log = logging.getLogger("agentjobs.store.outage_log")
# Loops try again within a second, but a statement that gets no response fails after 30 s only.
_QUIET_SECONDS = 40.0
_REMINDER_SECONDS = 300.0


class OutageLog:
    """An outage ends when no attempt has failed for `quiet_seconds`. Threads share it."""

    def __init__(
        self,
        quiet_seconds: float = _QUIET_SECONDS,
        reminder_seconds: float = _REMINDER_SECONDS,
    ) -> None:
        self._quiet_seconds = quiet_seconds
        self._reminder_seconds = reminder_seconds
        self._lock = threading.Lock()
        # Failed attempts of the current outage; empty while there is none.
        self._failures = Counter[str]()
        self._began_at = self._failed_at = 0.0

    def report(self, activity: str, error: Exception) -> None:
        """`activity` could not use the store and will try again."""
        with self._lock:
            is_first = not self._failures
            self._failures[activity] += 1
            self._failed_at = time.monotonic()
            if is_first:
                self._began_at = self._failed_at
        if is_first:
            reason = str(error) or "no response in time"
            _log.warning("the store is unavailable, first for %s: %s", activity, reason)
            self._start_following()

    def _start_following(self) -> None:
        try:
            threading.Thread(target=self._follow, name="outage-log", daemon=True).start()
        except RuntimeError:
            # No thread can be started: the next failure is logged too.
            with self._lock:
                self._failures.clear()

    def _follow(self) -> None:
        remind_at = self._began_at + self._reminder_seconds
        while True:
            with self._lock:
                now = time.monotonic()
                seconds = self._failed_at + self._quiet_seconds - now
                if seconds <= 0:
                    self._summarize(logging.INFO, "the store is available again")
                    self._failures = Counter()
                    return
                if now >= remind_at:
                    remind_at = now + self._reminder_seconds
                    self._summarize(logging.WARNING, "the store is still unavailable")
            time.sleep(seconds)

    def _summarize(self, level: int, state: str) -> None:
        seconds = self._failed_at - self._began_at
        text = f"{state}; failed attempts: {self._failures.total()} in {seconds:.0f} s"
        _log.log(level, "%s", text, extra={"fields": {"failures": dict(self._failures)}})


class Unavailable(Exception):
    """The store cannot be reached; the same call may succeed later."""


outages = OutageLog()
"""The log of this process."""
