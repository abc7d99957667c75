"""Exporting traces to a collector on a real socket, which may be away, slow or wrong."""

import asyncio
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Iterator

import pytest
import trustme

from agentjobs_runtime.tracing import exporting, spans
from agentjobs_runtime.tracing.exporting import exporting_traces, wants_export
from tests.support.otlp_collector import Collector, otlp_collector
from tests.support.service import wait_until

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with otlp_collector() as collecting:
        yield collecting


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch):
    def set_variables(variables: dict[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


def record(name: str = "part") -> None:
    with spans.continue_trace(name, PARENT):
        pass


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """What reaches the log: pytest also captures from loggers that hand nothing on."""
    return [
        entry.getMessage()
        for entry in caplog.records
        if entry.levelno >= level and logging.getLogger(entry.name).propagate
    ]


async def test_the_last_spans_are_sent_when_the_service_stops(collector, configure) -> None:
    configure(
        {
            **collector.environment,
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
    )
    async with exporting_traces():
        assert spans.is_recording()
        record("last")
    assert not spans.is_recording()
    (span,) = collector.spans
    assert (span.name, span.service) == ("last", "agentjobs")
    assert span.resource["deployment.environment.name"] == "test"
    assert span.resource["service.version"]


async def test_a_collector_may_have_a_certificate_of_the_operators_authority(
    configure, tmp_path, monkeypatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    with otlp_collector(tls) as collector:
        configure({ENDPOINT: f"https://localhost:{collector.port}"})
        async with exporting_traces(tmp_path / "ca.pem"):
            record()
        assert len(collector.spans) == 1


async def test_a_collector_that_is_away_costs_one_warning_until_it_returns(
    collector, configure, caplog
) -> None:
    caplog.set_level(logging.INFO)
    collector.status = 400
    configure(collector.environment)
    async with exporting_traces():
        for count in (1, 2, 3):
            record()
            await asyncio.to_thread(
                wait_until, lambda count=count: len(collector.headers) == count, "an export"
            )
        collector.status = 200
        record("again")
        await asyncio.to_thread(wait_until, lambda: collector.spans, "the span")
    (warning,) = messages(caplog)
    assert "traces cannot be exported, jobs are not affected" in warning
    assert "400" in warning
    assert "traces are exported again; 3 spans were lost" in messages(caplog, logging.INFO)


async def test_a_stop_does_not_wait_for_a_collector_that_never_responds(
    configure, caplog, monkeypatch
) -> None:
    monkeypatch.setattr(exporting, "_FLUSH_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        configure({ENDPOINT: f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_TIMEOUT": "1.5"})
        async with exporting_traces():
            record()
        assert "not exported within 0.1 s" in messages(caplog)[0]
        for thread in threading.enumerate():
            if thread.name == "last traces":
                await asyncio.to_thread(thread.join)


async def test_more_spans_than_the_queue_takes_are_dropped_with_one_warning(
    collector, configure, caplog
) -> None:
    configure(
        {
            **collector.environment,
            "OTEL_BSP_MAX_QUEUE_SIZE": "2",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
        }
    )
    async with exporting_traces():
        for _ in range(2_000):
            record()
    assert 2 <= len(collector.spans) < 2_000
    assert messages(caplog) == ["Queue full, dropping Span."]


async def test_without_the_packages_one_warning_says_what_to_install(
    configure, caplog, monkeypatch
) -> None:
    configure({ENDPOINT: "http://127.0.0.1:4318"})
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.delitem(sys.modules, "agentjobs_runtime.tracing.otlp_export", raising=False)
    async with exporting_traces():
        assert not spans.is_recording()
    (warning,) = messages(caplog)
    assert "pip install 'agentjobs[otel]'" in warning


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "best"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "0"},
        {"OTEL_BSP_SCHEDULE_DELAY": "soon"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "no address"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://127.0.0.1:1"},
        {"OTEL_TRACES_SAMPLER": "no sampler", "OTEL_TRACES_SAMPLER_ARG": "x"},
    ],
    ids=lambda variables: next(iter(variables)),
)
async def test_a_wrong_variable_is_a_warning_and_the_service_runs(
    configure, caplog, collector, variables
) -> None:
    configure({**collector.environment, **variables})
    async with exporting_traces():
        record()
    assert messages(caplog)
    assert not any(entry.exc_info for entry in caplog.records)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({ENDPOINT: " "}, False),
        ({ENDPOINT: "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({ENDPOINT: "http://collector:4318", "OTEL_SDK_DISABLED": "True"}, False),
        ({ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "zipkin"}, False),
        ({ENDPOINT: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        (
            {
                ENDPOINT: "http://collector:4318",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            True,
        ),
    ],
)
def test_the_standard_variables_decide_whether_traces_are_exported(
    variables: dict[str, str], expected: bool
) -> None:
    assert wants_export(variables) is expected
