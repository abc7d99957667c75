"""A collector of traces on a real socket: OTLP over HTTP, decoded with the published schema."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.service import wait_until


@dataclass(frozen=True)
class CollectedSpan:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    kind: str
    is_error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def service(self) -> str:
        return str(self.resource["service.name"])


@dataclass
class Collector:
    port: int
    spans: list[CollectedSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    # Of its responses.
    status: int = 200

    @property
    def environment(self) -> dict[str, str]:
        """Makes a service export to it, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def wait_for(self, trace_id: str, *names: str) -> dict[str, CollectedSpan]:
        """The spans of a trace by name, once there is one of each of these names."""

        def collected() -> dict[str, CollectedSpan] | None:
            spans = {span.name: span for span in list(self.spans) if span.trace_id == trace_id}
            return spans if set(names) <= set(spans) else None

        spans: dict[str, CollectedSpan] = wait_until(collected, f"{names} in {trace_id}", 60)
        return spans

    def add(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            of_resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [_collected(span, of_resource) for span in scope.spans]


def _collected(span: Span, resource: dict[str, Any]) -> CollectedSpan:
    return CollectedSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        is_error=span.status.code == 2,
        attributes=_attributes(span.attributes),
        resource=resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair) for pair in pairs}


def _value(pair: KeyValue) -> Any:
    return getattr(pair.value, pair.value.WhichOneof("value"))


@contextmanager
def otlp_collector(tls: SSLContext | None = None) -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.headers.append({**self.headers, "path": self.path})
            if collector.status == 200:
                collector.add(body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Not logged: spans are in `spans`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    collector = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
