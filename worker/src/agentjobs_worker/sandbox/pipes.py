"""The pipes of a sandbox: commands for its shell go in, and the output of the agent comes out."""

import asyncio
import os
from collections.abc import Callable

from agentjobs_worker.sandbox.protocol import OnOutput

CHUNK_BYTES = 64 * 1024
# Pausing after a full chunk lets the pipe push back on the writer, so that endless output costs
# the service neither memory nor a whole core (at most about 13 MB/s).
FULL_CHUNK_PAUSE_SECONDS = 0.005
# More than a pipe can hold: reads everything written before the end, but not an endless writer.
MAX_REMAINING_BYTES = 2 * 1024 * 1024


class OutputPipe:
    """Passes chunks to `on_output`; if that raises, keeps the error and calls `on_failure`."""

    def __init__(self, on_output: OnOutput, on_failure: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_output = on_output
        self._on_failure = on_failure
        self._resume_timer: asyncio.TimerHandle | None = None
        self.failure: Exception | None = None
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)

    def start(self) -> None:
        """Call it when the writer has started: closes our copy of the write end."""
        self._close_write_end()
        self._loop.add_reader(self._read_end, self._on_readable)

    def finish(self) -> None:
        """Read what is available without waiting for more, and close."""
        self._pause()
        self._close_write_end()
        remaining = MAX_REMAINING_BYTES
        while remaining > 0 and (chunk := self._read()):
            remaining -= len(chunk)
            self._forward(chunk)
        os.close(self._read_end)

    def _on_readable(self) -> None:
        chunk = self._read()
        if chunk is None:
            return
        if len(chunk) in (0, CHUNK_BYTES):
            self._pause()
        if len(chunk) == CHUNK_BYTES:
            self._resume_timer = self._loop.call_later(FULL_CHUNK_PAUSE_SECONDS, self._resume)
        self._forward(chunk)

    def _read(self) -> bytes | None:
        """None: nothing to read now. Empty: all writers have closed the pipe."""
        try:
            return os.read(self._read_end, CHUNK_BYTES)
        except BlockingIOError:
            return None

    def _forward(self, chunk: bytes) -> None:
        if not chunk or self.failure is not None:
            return
        try:
            self._on_output(chunk)
        except Exception as error:  # noqa: BLE001 - the run that owns this pipe raises it
            self.failure = error
            self._on_failure()

    def _pause(self) -> None:
        self._loop.remove_reader(self._read_end)
        if self._resume_timer is not None:
            self._resume_timer.cancel()
            self._resume_timer = None

    def _resume(self) -> None:
        self._resume_timer = None
        self._loop.add_reader(self._read_end, self._on_readable)

    def _close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1


class InputPipe:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending = b""
        self.read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)

    def write(self, content: bytes) -> None:
        """What does not fit into the pipe is written when the shell has read the rest."""
        self._pending += content
        self._flush()

    def end(self) -> None:
        """The shell reads what the pipe contains, and then its end."""
        if self._write_end >= 0:
            self._loop.remove_writer(self._write_end)
            os.close(self._write_end)
            self._write_end = -1

    def close(self) -> None:
        self.end()
        os.close(self.read_end)

    def _flush(self) -> None:
        try:
            sent = os.write(self._write_end, self._pending)
        except BlockingIOError:
            sent = 0
        self._pending = self._pending[sent:]
        if self._pending:
            self._loop.add_writer(self._write_end, self._flush)
        else:
            self._loop.remove_writer(self._write_end)
