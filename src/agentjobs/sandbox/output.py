"""The pipe an agent writes to: read as it comes, never stored, never waited on for its end."""

import asyncio
import os
from collections.abc import Callable

from agentjobs.sandbox.protocol import OnOutput

CHUNK_BYTES = 64 * 1024
# A full chunk is a flood. Resting after it lets the pipe push back on the writer, so endless
# output costs the service neither memory nor a processor (about 13 MB/s at most).
FLOOD_REST_SECONDS = 0.005
# More than a pipe can hold: what was written before the end is read, an endless writer is not.
REST_BYTES = 2 * 1024 * 1024


class OutputPipe:
    """Hands chunks to `on_output`; if that raises, keeps the error and calls `on_failure`."""

    def __init__(self, on_output: OnOutput, on_failure: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_output = on_output
        self._on_failure = on_failure
        self._rest: asyncio.TimerHandle | None = None
        self.failure: Exception | None = None
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)

    def start(self) -> None:
        """To be called once the writer is started: closes our copy of its end."""
        self._close_write_end()
        self._loop.add_reader(self._read_end, self._readable)

    def finish(self) -> None:
        """Read what is there, without waiting for more, and close."""
        self._pause()
        self._close_write_end()
        remaining = REST_BYTES
        while remaining > 0 and (chunk := self._read()):
            remaining -= len(chunk)
            self._hand_over(chunk)
        os.close(self._read_end)

    def _readable(self) -> None:
        chunk = self._read()
        if chunk is None:
            return
        if len(chunk) in (0, CHUNK_BYTES):
            self._pause()
        if len(chunk) == CHUNK_BYTES:
            self._rest = self._loop.call_later(FLOOD_REST_SECONDS, self._resume)
        self._hand_over(chunk)

    def _read(self) -> bytes | None:
        """None: nothing to read now. Empty: every writer is gone."""
        try:
            return os.read(self._read_end, CHUNK_BYTES)
        except BlockingIOError:
            return None

    def _hand_over(self, chunk: bytes) -> None:
        if not chunk or self.failure is not None:
            return
        try:
            self._on_output(chunk)
        except Exception as error:  # noqa: BLE001 - raised again by the run that owns this pipe
            self.failure = error
            self._on_failure()

    def _pause(self) -> None:
        self._loop.remove_reader(self._read_end)
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _resume(self) -> None:
        self._rest = None
        self._loop.add_reader(self._read_end, self._readable)

    def _close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1
