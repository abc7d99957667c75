"""The access log: one line per request, with status, duration and client."""

import logging

import msgspec
from starlette.types import Scope

from agentjobs.web.api.auth import CALLER
from agentjobs.web.client_addresses import ClientAddresses
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.logging_setup import encode_line, only_handler, request_id

_log = logging.getLogger("agentjobs.access")
_MESSAGE = "request"
# Probes run every few seconds; they are logged at INFO only if they fail.
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


class _Line(msgspec.Struct, omit_defaults=True):
    """As `logging_setup.JsonFormatter` writes it. A struct takes a fraction of a dict's time."""

    time: str
    level: str
    logger: str
    message: str
    request_id: str | None
    method: str
    path: str
    status: int
    duration_ms: float
    client: str
    organization: str | None = None
    key_id: str | None = None


_COMMON_FIELDS = frozenset({"time", "level", "logger", "message", "request_id"})


class AccessLog:
    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses

    def write(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"]
        level = logging.DEBUG if path in _PROBES and status < 400 else logging.INFO
        if not _log.isEnabledFor(level):
            return
        caller = scope.get(CALLER)
        line = _Line(
            iso_utc(now_ms()),
            "info" if level == logging.INFO else "debug",
            _log.name,
            _MESSAGE,
            request_id.get(),
            scope["method"],
            path,
            status,
            round(seconds * 1_000, 2),
            self._addresses.of(scope),
            None if caller is None else caller.organization,
            None if caller is None else caller.key_id,
        )
        handler = only_handler(_log)
        if handler is None:
            _log.log(level, _MESSAGE, extra={"fields": _own_fields(line)})
        else:
            # What logging does for a record costs more than the line.
            handler.write_soon(encode_line(line))


def _own_fields(line: _Line) -> dict[str, object]:
    fields = msgspec.structs.asdict(line)
    return {
        name: value
        for name, value in fields.items()
        if name not in _COMMON_FIELDS and value is not None
    }
