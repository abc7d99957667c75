"""The access log: one line per request, with status, duration and client."""

import logging
from typing import Any

from starlette.types import Scope

from agentjobs.clock import now_ms
from agentjobs.logging_setup import json_line, only_handler
from agentjobs.web.api.auth import CALLER
from agentjobs.web.client_addresses import ClientAddresses

_log = logging.getLogger("agentjobs.access")
# Probes run every few seconds; they are logged at INFO only if they fail.
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


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
        handler = only_handler(_log)
        if handler is None:
            _log.log(level, "request", extra={"fields": fields})
        else:
            # What logging does for a record costs more than the line.
            name = logging.getLevelName(level).lower()
            handler.write_soon(json_line(now_ms(), name, _log.name, "request", fields))
