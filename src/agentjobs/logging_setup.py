"""JSON logs: one object per line, with the identifiers of the current request and job."""

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


def configure_logging(level: str = "info", stream: TextIO | None = None) -> None:
    """Log to one stream, standard error by default, as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
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
