"""Which requests belong to a trace, and what their spans contain."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service.tests.unit.web.mcp.clients import message, post
from service.tests.unit.web.service import JOB, Service
from tests.support.recorded_spans import recorded_spans

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01"}


@pytest.fixture
def recorded() -> Iterator[InMemorySpanExporter]:
    with recorded_spans() as exporter:
        yield exporter


async def stored_traceparent(service: Service) -> str | None:
    (row,) = await service.harness.db.fetch_all("SELECT traceparent FROM jobs")
    traceparent: str | None = row["traceparent"]
    return traceparent


async def test_a_job_keeps_the_trace_of_its_request(service: Service) -> None:
    response = await service.post("/v1/jobs", json=JOB, headers=TRACEPARENT)
    assert response.status_code == 202
    assert await stored_traceparent(service) == TRACEPARENT["traceparent"]


async def test_a_job_created_by_a_tool_keeps_the_trace_of_the_call(service: Service) -> None:
    create = message("tools/call", name="create_job", arguments=JOB)
    assert (await post(service, create, **TRACEPARENT)).status_code == 200
    assert await stored_traceparent(service) == TRACEPARENT["traceparent"]


async def test_a_request_is_a_span_with_its_route_and_organization(
    service: Service, recorded: InMemorySpanExporter
) -> None:
    job_id = await service.create_job()
    await service.post(f"/v1/jobs/{job_id}/cancel")
    created, cancelled = recorded.get_finished_spans()
    assert (created.name, cancelled.name) == ("POST /v1/jobs", "POST /v1/jobs/{job_id}/cancel")
    assert cancelled.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/jobs/{job_id}/cancel",
        "http.response.status_code": 202,
        "url.path": f"/v1/jobs/{job_id}/cancel",
        "url.scheme": "http",
        "agentjobs.organization.id": service.caller.organization_id,
    }


async def test_a_request_that_only_reads_is_recorded_if_its_caller_asks_for_it(
    service: Service, recorded: InMemorySpanExporter
) -> None:
    await service.get("/v1/agents")
    assert recorded.get_finished_spans() == ()
    await service.get("/v1/agents", headers=TRACEPARENT)
    (span,) = recorded.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == TRACE_ID


async def test_a_mistake_of_the_client_is_no_error_of_the_service(
    service: Service, recorded: InMemorySpanExporter
) -> None:
    await service.post("/v1/jobs", json={**JOB, "agent": "unknown"}, headers=TRACEPARENT)
    (span,) = recorded.get_finished_spans()
    assert span.status.is_unset
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 422
    assert span.attributes["error.type"] == "unknown_agent"


async def test_a_failure_of_the_service_is_an_error(
    service: Service, recorded: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("what only the log may contain")

    monkeypatch.setattr("agentjobs.web.api.jobs.create_job", fail)
    assert (await service.post("/v1/jobs", json=JOB)).status_code == 500
    (span,) = recorded.get_finished_spans()
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == "internal_error"
    assert "log" not in span.to_json()


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/nothing", "/healthz", "/metrics"])
async def test_strangers_cannot_have_their_requests_recorded(
    service: Service, recorded: InMemorySpanExporter, path: str
) -> None:
    del service.http.headers["Authorization"]
    await service.get(path, headers=TRACEPARENT)
    await service.post(path, json=JOB, headers=TRACEPARENT)
    assert recorded.get_finished_spans() == ()
