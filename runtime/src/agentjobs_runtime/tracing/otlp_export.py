"""Exports spans with the SDK of OpenTelemetry. Imported only where traces are exported."""

import logging
from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from agentjobs_runtime.tracing.spans import chosen_span_id

_NAME = "agentjobs"
# Logs every failed export.
_EXPORTER_LOGGER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
# Logs variables that are no numbers, with a traceback.
_SETTINGS_LOGGER = "opentelemetry.sdk.trace.export"

_log = logging.getLogger(__name__)


class Export:
    """Spans wait in a bounded queue, and a thread sends them. Configured by `OTEL_*` alone."""

    def __init__(self, certificate_file: str | None = None) -> None:
        logging.getLogger(_SETTINGS_LOGGER).filters[:] = [_remove_traceback]
        exporter = OTLPSpanExporter(certificate_file=certificate_file)
        own = {"service.name": _NAME, "service.version": version(_NAME)}
        configured = OTELResourceDetector().detect().attributes
        self._provider = TracerProvider(
            resource=Resource.create({**own, **configured}),
            shutdown_on_exit=False,
            id_generator=SpanIdentifiers(),
        )
        self._provider.add_span_processor(BatchSpanProcessor(_ReportingExporter(exporter)))
        # Not the provider of the whole process: libraries would record spans of their own.
        self.tracer = self._provider.get_tracer(_NAME, version(_NAME))

    def stop(self) -> None:
        """Send what waits. May take half a minute if it is not received."""
        self._provider.shutdown()


class SpanIdentifiers(RandomIdGenerator):
    """Random ones, except for spans that were reserved."""

    def generate_span_id(self) -> int:
        return chosen_span_id.get() or super().generate_span_id()


class _ReportingExporter(SpanExporter):
    """Logs when exports begin to fail and when they succeed again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._lost = 0
        self._reasons = _FirstMessage()
        logger = logging.getLogger(_EXPORTER_LOGGER)
        logger.handlers[:] = [self._reasons]
        logger.propagate = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        reason = self._reasons.take()
        if result is SpanExportResult.SUCCESS:
            if self._lost:
                _log.info("traces are exported again; %d spans were lost", self._lost)
            self._lost = 0
        else:
            if not self._lost:
                _log.warning("traces cannot be exported, jobs are not affected: %s", reason)
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _FirstMessage(logging.Handler):
    """Keeps the first message, which names the cause; those after it count retries."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._message = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._message = self._message or record.getMessage()

    def take(self) -> str:
        message, self._message = self._message, ""
        return message


def _remove_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True
