"""Exports traces while a service runs, if the standard variables `OTEL_*` ask for it."""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentjobs_runtime.tracing.spans import set_tracer

if TYPE_CHECKING:
    from agentjobs_runtime.tracing.otlp_export import Export

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_CERTIFICATES = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")
_PROTOCOL = "http/protobuf"
_FLUSH_SECONDS = 5.0

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def exporting_traces(certificates: Path | None = None) -> AsyncIterator[None]:
    """`certificates` are trusted unless `OTEL_*` names others.

    Never fails: what is wrong with the configuration is logged.
    """
    export = await _start(certificates) if wants_export(os.environ) else None
    if export is None:
        yield
        return
    set_tracer(export.tracer)
    try:
        yield
    finally:
        set_tracer(None)
        await _stop(export)


def wants_export(environment: Mapping[str, str]) -> bool:
    exporter = _value(environment, "OTEL_TRACES_EXPORTER")
    endpoint = any(_value(environment, name) for name in _ENDPOINTS)
    if _value(environment, "OTEL_SDK_DISABLED") == "true" or exporter == "none":
        return False
    if not (endpoint or exporter):
        return False
    if exporter not in {"", "otlp"}:
        _log.warning("no traces: OTEL_TRACES_EXPORTER is %r; only otlp is supported", exporter)
        return False
    protocol = next(filter(None, (_value(environment, name) for name in _PROTOCOLS)), _PROTOCOL)
    if protocol != _PROTOCOL:
        _log.warning(
            "no traces: the protocol %r is not supported; set OTEL_EXPORTER_OTLP_PROTOCOL to %s,"
            " and the endpoint to the collector's address for OTLP over HTTP (port 4318)",
            protocol,
            _PROTOCOL,
        )
        return False
    return True


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip().lower()


async def _start(certificates: Path | None) -> "Export | None":
    try:
        return await asyncio.to_thread(_load, certificates)
    except ImportError as error:
        _log.warning(
            "no traces: the package %s is missing; install the extra: pip install"
            " 'agentjobs[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT",
            error.name,
        )
    except Exception as error:  # noqa: BLE001 - a wrong OTEL_* variable must not stop the service
        _log.warning("no traces: %s; check the variables OTEL_*", error)
    return None


def _load(certificates: Path | None) -> "Export":
    # Half a second that only services with traces spend.
    from agentjobs_runtime.tracing.otlp_export import Export  # noqa: PLC0415

    is_named = any(_value(os.environ, name) for name in _CERTIFICATES)
    return Export(None if is_named or certificates is None else str(certificates))


async def _stop(export: "Export") -> None:
    """Runs in a thread that the end of the process does not wait for."""
    thread = threading.Thread(target=export.stop, name="last traces", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, _FLUSH_SECONDS)
    if thread.is_alive():
        _log.warning("the last traces were not exported within %g s", _FLUSH_SECONDS)
