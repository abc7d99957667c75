"""JSON logs: one object per line, with the identifiers of the current request and job."""

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, TextIO

import msgspec

from agentjobs_runtime.clock import iso_utc

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
job_id: ContextVar[str | None] = ContextVar("job_id", default=None)

_ENCODER = msgspec.json.Encoder(enc_hook=str)


class JsonFormatter(logging.Formatter):
    """Entries of `extra={"fields": {...}}` become fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", None) or {}
        if record.exc_info:
            fields = {**fields, "traceback": self.formatException(record.exc_info)}
        at_ms = int(record.created * 1_000)
        return _json_line(at_ms, record.levelname.lower(), record.name, record.getMessage(), fields)


def _json_line(at_ms: int, level: str, logger: str, message: str, fields: Mapping[str, Any]) -> str:
    line = {"time": iso_utc(at_ms), "level": level, "logger": logger, "message": message}
    if (current_request := request_id.get()) is not None:
        line["request_id"] = current_request
    if (current_job := job_id.get()) is not None:
        line["job_id"] = current_job
    return encode_line({**line, **fields})


class LineHandler(logging.StreamHandler[TextIO]):
    """Also takes lines that are written together, at the next iteration of the event loop.

    A record is written immediately, after the lines that wait.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        # Other threads append while one of them takes the lines.
        self._waiting: deque[str] = deque()
        self._flushing_loop: asyncio.AbstractEventLoop | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.append(self.format(record))
            self.flush()
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - as in StreamHandler: a log line must not fail its caller
            self.handleError(record)

    def write_soon(self, line: str) -> None:
        """Called in the event loop."""
        self._waiting.append(line)
        loop = asyncio.get_running_loop()
        if self._flushing_loop is not loop:
            self._flushing_loop = loop
            loop.call_soon(self._flush_waiting)

    def flush(self) -> None:
        self.acquire()
        try:
            self._flushing_loop = None
            lines = [f"{self._waiting.popleft()}\n" for _ in range(len(self._waiting))]
            if lines:
                self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()

    def _flush_waiting(self) -> None:
        # The stream is full or closed: there is nowhere to report it.
        with contextlib.suppress(OSError, ValueError):
            self.flush()


def only_handler(logger: logging.Logger) -> LineHandler | None:
    """The handler that writes the log, if it is the only one that gets the logger's records."""
    while logger.parent is not None:
        if logger.handlers:
            return None
        logger = logger.parent
    if len(logger.handlers) == 1 and isinstance(logger.handlers[0], LineHandler):
        return logger.handlers[0]
    return None


def configure_logging(level: str = "info", handler: LineHandler | None = None) -> None:
    """Log to one handler, by default to standard error, as JSON lines."""
    handler = handler or LineHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Lines do not contain these, and collecting them costs more than writing the line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # The service has its own access log.
    logging.getLogger("uvicorn.access").disabled = True
    # The service logs the relevant steps itself.
    for verbose in ("alembic", "httpx2", "uvicorn"):
        logging.getLogger(verbose).setLevel(logging.WARNING)


def encode_line(line: Mapping[str, Any] | msgspec.Struct) -> str:
    try:
        return _ENCODER.encode(line).decode()
    except UnicodeEncodeError:
        # A lone surrogate, e.g. from an undecodable file name in a message.
        fields = msgspec.structs.asdict(line) if isinstance(line, msgspec.Struct) else line
        return _ENCODER.encode({name: ascii(value) for name, value in fields.items()}).decode()
