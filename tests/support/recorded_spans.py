"""Spans that the code under test records, in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from agentjobs_runtime.tracing.otlp_export import SpanIdentifiers
from agentjobs_runtime.tracing.spans import set_tracer


@contextmanager
def recorded_spans(sampler: Sampler = ALWAYS_ON) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler, shutdown_on_exit=False, id_generator=SpanIdentifiers())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    set_tracer(provider.get_tracer("agentjobs"))
    try:
        yield exporter
    finally:
        set_tracer(None)
