"""JSON logs: one object per line, with the identifiers of the current request and job."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, TextIO

import msgspec

from agentjobs.clock import iso_utc

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
job_id: ContextVar[str | None] = ContextVar("job_id", default=None)

_ENCODER = msgspec.json.Encoder(enc_hook=str)


class JsonFormatter(logging.Formatter):
    """Entries of `extra={"fields": {...}}` become fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": iso_utc(int(record.created * 1_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, variable in (("request_id", request_id), ("job_id", job_id)):
            value = variable.get()
            if value is not None:
                line[name] = value
        fields: Mapping[str, Any] | None = getattr(record, "fields", None)
        if fields:
            line.update(fields)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes records with `may_wait` together, at the next iteration of the event loop.

    Any other record is written immediately, after those that wait.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: list[str] = []
        self._flushing_loop: asyncio.AbstractEventLoop | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.append(self.format(record))
            if not (getattr(record, "may_wait", False) and self._flush_soon()):
                self.flush()
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - as in StreamHandler: a log line must not fail its caller
            self.handleError(record)

    def flush(self) -> None:
        self.acquire()
        try:
            self._flushing_loop = None
            lines, self._waiting = self._waiting, []
            if lines:
                self.stream.write("\n".join([*lines, ""]))
            super().flush()
        finally:
            self.release()

    def _flush_waiting(self) -> None:
        # The stream is full or closed: there is nowhere to report it.
        with contextlib.suppress(OSError, ValueError):
            self.flush()

    def _flush_soon(self) -> bool:
        """False outside the event loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._flushing_loop is not loop:
            self._flushing_loop = loop
            loop.call_soon(self._flush_waiting)
        return True


def configure_logging(level: str = "info", stream: TextIO | None = None) -> None:
    """Log to one stream, standard error by default, as JSON lines."""
    handler = LineHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Lines do not contain these, and collecting them costs more than writing the line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # The service has its own access log.
    logging.getLogger("uvicorn.access").disabled = True
    # The service logs the relevant steps itself.
    for verbose in ("alembic", "uvicorn"):
        logging.getLogger(verbose).setLevel(logging.WARNING)


def _encode(line: Mapping[str, Any]) -> str:
    try:
        return _ENCODER.encode(line).decode()
    except UnicodeEncodeError:
        # A lone surrogate, e.g. from an undecodable file name in a message.
        clean = {name: ascii(value) for name, value in line.items()}
        return _ENCODER.encode(clean).decode()
