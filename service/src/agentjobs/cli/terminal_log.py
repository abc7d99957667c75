"""The log of a service that runs in a terminal: a file of bounded size, and warnings on screen."""

import contextlib
import logging
import os
from pathlib import Path
from typing import TextIO

from agentjobs.cli.output import escape_line, print_note
from agentjobs_runtime.logging_setup import LineHandler

MAX_LOG_BYTES = 16 * 1024**2


class TerminalLog(LineHandler):
    """Writes to the file, and repeats warnings and errors for the person at the terminal."""

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        super().__init__(_open(path))

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.WARNING:
            text = escape_line(record.getMessage())
            with contextlib.suppress(OSError):
                print_note(f"{record.levelname.lower()}: {text}")

    def flush(self) -> None:
        self.acquire()
        try:
            super().flush()
            if os.fstat(self.stream.fileno()).st_size > self._max_bytes:
                self._rotate()
        finally:
            self.release()

    def _rotate(self) -> None:
        """Keeps one earlier file."""
        # On a disk that refuses this, the file keeps growing.
        with contextlib.suppress(OSError):
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            earlier, self.stream = self.stream, _open(self._path)
            earlier.close()


def _open(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8")
