"""The pipe a sandbox's shell reads its commands from: writes without waiting for the reader."""

import asyncio
import os


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
