"""The access log: one line per request, with status, duration and client."""

import logging
import time
from typing import Any

from starlette.types import Scope

from agentjobs.web.api.auth import CALLER
from agentjobs.web.client_addresses import ClientAddresses

_log = logging.getLogger("agentjobs.access")
# Probes run every few seconds; they are logged at INFO only if they fail.
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_TEMPLATE = logging.LogRecord(_log.name, logging.INFO, __file__, 0, "request", None, None).__dict__


class AccessLog:
    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses

    def write(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"]
        level = logging.DEBUG if path in _PROBES and status < 400 else logging.INFO
        if not _log.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "method": scope["method"],
            "path": path,
            "status": status,
            "duration_ms": round(seconds * 1_000, 2),
            "client": self._addresses.of(scope),
        }
        caller = scope.get(CALLER)
        if caller is not None:
            fields["organization"] = caller.organization
            fields["key_id"] = caller.key_id
        _log.handle(_record(level, fields))


def _record(level: int, fields: dict[str, Any]) -> logging.LogRecord:
    """Logger.log would inspect the stack for a caller, and LogRecord the path of this file."""
    record = logging.LogRecord.__new__(logging.LogRecord)
    now = time.time()
    record.__dict__ = {
        **_TEMPLATE,
        "levelno": level,
        "levelname": logging.getLevelName(level),
        "created": now,
        "msecs": int(now % 1 * 1_000) + 0.0,
        "fields": fields,
        "may_wait": True,
    }
    return record
