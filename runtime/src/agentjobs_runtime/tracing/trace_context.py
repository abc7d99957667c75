"""`traceparent` of W3C Trace Context, as text. `tracestate` is not handed on."""

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.trace import Span, format_span_id, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

HEADER = "traceparent"
# What agents find in their environment.
VARIABLE = "TRACEPARENT"

# Later versions may append fields. OpenTelemetry logs a warning for each header that is longer.
_MAX_LENGTH = 512
# Whether the caller records its trace, and whether its identifier is random.
_KNOWN_FLAGS = 0x03
_PROPAGATOR = TraceContextTextMapPropagator()


def read_traceparent(values: Sequence[bytes]) -> str | None:
    """The trace of a request, in version 00; None if the values of its header are not valid."""
    if len(values) != 1 or len(values[0]) > _MAX_LENGTH:
        return None
    return write_traceparent(get_current_span(parse_traceparent(values[0].decode("latin-1"))))


def parse_traceparent(text: str | None) -> Context:
    """The context of a span's children; without a valid text, they begin a trace."""
    return Context() if text is None else _PROPAGATOR.extract({HEADER: text}, Context())


def write_traceparent(span: Span) -> str | None:
    """The value with which others continue the trace of this span."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    ids = f"{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}"
    return f"00-{ids}-{context.trace_flags & _KNOWN_FLAGS:02x}"
