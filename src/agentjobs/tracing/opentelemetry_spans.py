"""Records spans with OpenTelemetry and exports them. Imported only where traces are exported."""

import logging
from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from agentjobs.clock import now_ms
from agentjobs.tracing.spans import Attributes, Kind

_NAME = "agentjobs"
_KINDS = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
}
_NS_PER_MS = 1_000_000
# Logs every failed export.
_EXPORTER_LOGGER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
# Logs spans that do not fit into the queue, every 20 seconds.
_QUEUE_LOGGER = "opentelemetry.sdk._shared_internal"
# Logs variables that are no numbers, with a traceback.
_SETTINGS_LOGGER = "opentelemetry.sdk.trace.export"

_log = logging.getLogger(__name__)


class OpenTelemetryRecorder:
    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer(_NAME, version(_NAME))

    def start(
        self,
        name: str,
        attributes: Attributes,
        *,
        parent: str | None,
        is_remote: bool,
        kind: Kind,
        start_ms: int | None,
    ) -> "RecordedSpan":
        return RecordedSpan(
            self._tracer.start_span(
                name,
                # Never the current context of OpenTelemetry: libraries may have set one.
                context=Context() if parent is None else _context(parent, is_remote=is_remote),
                kind=_KINDS[kind],
                attributes=_known(attributes),
                # A database may have another clock, and no span ends before it starts.
                start_time=None if start_ms is None else min(start_ms, now_ms()) * _NS_PER_MS,
            )
        )


class RecordedSpan:
    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = (
            f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        )

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(_known(attributes))

    def fail(self, error_type: str) -> None:
        self._span.set_status(StatusCode.ERROR)
        self._span.set_attribute("error.type", error_type)

    def end(self) -> None:
        self._span.end()


class Export:
    """Spans wait in a bounded queue, and a thread sends them. Configured by `OTEL_*` alone."""

    def __init__(self, certificate_file: str | None = None) -> None:
        logging.getLogger(_SETTINGS_LOGGER).filters[:] = [_remove_traceback]
        exporter = OTLPSpanExporter(certificate_file=certificate_file)
        own = {"service.name": _NAME, "service.version": version(_NAME)}
        configured = OTELResourceDetector().detect().attributes
        self._provider = TracerProvider(
            resource=Resource.create({**own, **configured}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(_ReportingExporter(exporter)))
        self.recorder = OpenTelemetryRecorder(self._provider)

    def stop(self) -> None:
        """Send what waits. May take half a minute if nobody receives it."""
        self._provider.shutdown()


class _ReportingExporter(SpanExporter):
    """Logs when exports begin to fail and when they succeed again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._lost = 0
        self._reasons = _FirstMessage()
        logger = logging.getLogger(_EXPORTER_LOGGER)
        logger.handlers[:] = [self._reasons]
        logger.propagate = False
        logging.getLogger(_QUEUE_LOGGER).filters[:] = [_Once()]

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


class _Once(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._has_passed = False

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - one of any text
        has_passed, self._has_passed = self._has_passed, True
        return not has_passed


def _remove_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


def _context(traceparent: str, *, is_remote: bool) -> Context:
    _, trace_id, span_id, flags = traceparent.split("-")
    parent = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(int(flags, 16)))
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _known(attributes: Attributes) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in attributes.items() if value is not None}
