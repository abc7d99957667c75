"""`watch_job`: what ends it, and what its client hears in the meantime."""

import json
from typing import Any

import pytest

from agentjobs.organizations.api_keys import revoke_key
from agentjobs.web.mcp import job_tools
from service.tests.unit.web.mcp.clients import (
    ACCEPT,
    VERSION,
    Connect,
    call_tool,
    call_with_document,
    error_code,
    message,
    text_of,
)
from service.tests.unit.web.service import ORGANIZATION, LiveCall, Service


def watching(
    service: Service,
    job_id: str,
    *,
    progress: bool,
    headers: dict[str, str] | None = None,
    **arguments: Any,
) -> LiveCall:
    meta = {"progressToken": "p1"} if progress else {}
    call = message(
        "tools/call",
        name="watch_job",
        arguments={"job_id": job_id, "wait_seconds": 60, **arguments},
        _meta=meta,
    )
    all_headers = {**ACCEPT, **VERSION, "Content-Type": "application/json", **(headers or {})}
    return service.live("/mcp", json.dumps(call).encode(), **all_headers)


def data_of(event: str | None) -> dict[str, Any]:
    assert event is not None
    data: dict[str, Any] = json.loads(event.partition("data: ")[2])
    return data


async def result_of(call: LiveCall) -> dict[str, Any]:
    start = await call.start()
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (200, b"application/json")
    body = json.loads((await call.sent.get())["body"])
    await call.wait()
    content: dict[str, Any] = body["result"]["structuredContent"]
    return content


@pytest.mark.parametrize("until", ["change", "final"])
async def test_the_end_of_the_job_ends_the_wait(service: Service, until: str) -> None:
    job_id = await service.create_job()
    call = watching(service, job_id, progress=False, until=until)
    await service.wait_for_subscriber(f"job:{job_id}")
    await service.post(f"/v1/jobs/{job_id}/cancel")
    job = await result_of(call)
    assert (job["status"], job["is_final"]) == ("cancelled", True)


async def test_an_unchanged_job_is_returned_when_the_time_is_over(
    service: Service, connect: Connect
) -> None:
    job_id = await service.create_job()
    async with connect() as client:
        for seconds in (0, 1):
            job = await call_tool(client, "watch_job", job_id=job_id, wait_seconds=seconds)
            assert (job["status"], job["is_final"]) == ("queued", False)


async def test_progress_is_reported_to_a_client_that_asks_for_it(
    service: Service, connect: Connect
) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, text: str | None) -> None:
        heard.append((progress, total, text))

    job_id = await service.create_job()
    async with connect() as client:
        arguments = {"job_id": job_id, "wait_seconds": 1}
        result = await client.call_tool("watch_job", arguments, progress_callback=hear)
        await client.call_tool("watch_job", arguments)
    assert result.structured_content["status"] == "queued"
    (first, *_) = heard
    assert first[1:] == (1, "The job is queued, number 1 in the queue.")


async def test_progress_arrives_while_the_call_waits(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_tools, "_PROGRESS_SECONDS", 1)
    job_id = await service.create_job()
    call = watching(service, job_id, progress=True)
    headers = dict((await call.start())["headers"])
    assert headers[b"content-type"] == b"text/event-stream"
    first, second = data_of(await call.body()), data_of(await call.body())
    assert first["method"] == "notifications/progress"
    assert first["params"]["progressToken"] == "p1"
    assert first["params"]["progress"] < second["params"]["progress"] < 60
    await service.post(f"/v1/jobs/{job_id}/cancel")
    answer = data_of(await call.body())
    while "result" not in answer:
        answer = data_of(await call.body())
    assert (answer["id"], answer["result"]["structuredContent"]["status"]) == (1, "cancelled")
    assert await call.body() is None
    await call.wait()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "queued", "queue_position": 3}, "The job is queued, number 3 in the queue."),
        ({"status": "running", "elapsed_ms": 61_400}, "The job has been running for 61 s."),
        ({"status": "running"}, "The job is running."),
    ],
)
async def test_a_model_is_told_how_far_the_job_is(fields: dict[str, Any], text: str) -> None:
    job = {"job_id": "job_1", "agent": "fixer", "repo": "acme/shop", **fields}
    result = await call_with_document(job, "watch_job", job_id="job_1", wait_seconds=0)
    assert text_of(result).endswith(f"{text} It has not ended yet: call watch_job again.")


async def test_a_stream_ends_with_the_error_of_a_call(service: Service) -> None:
    call = watching(service, "job_1", progress=True)
    await call.start()
    assert data_of(await call.body())["result"]["isError"] is True
    assert await call.body() is None
    call = watching(service, "job_1", progress=True)
    call.content = call.content.replace(b'"arguments": {', b'"arguments": 7, "more": {')  # type: ignore[union-attr]
    await call.start()
    assert data_of(await call.body())["error"]["code"] == -32602


@pytest.mark.parametrize("progress", [False, True])
async def test_a_shutdown_ends_the_wait_with_the_job_as_it_is(
    service: Service, progress: bool
) -> None:
    job_id = await service.create_job()
    call = watching(service, job_id, progress=progress)
    await service.wait_for_subscriber(f"job:{job_id}")
    service.context.stopping.set()
    if progress:
        await call.start()
        answer = data_of(await call.body())
        while "result" not in answer:
            answer = data_of(await call.body())
        job = answer["result"]["structuredContent"]
    else:
        job = await result_of(call)
    assert (job["status"], job["is_final"]) == ("queued", False)


@pytest.mark.parametrize("progress", [False, True])
async def test_a_client_that_leaves_ends_the_wait(service: Service, progress: bool) -> None:
    job_id = await service.create_job()
    call = watching(service, job_id, progress=progress)
    await service.wait_for_subscriber(f"job:{job_id}")
    call.leave()
    await call.wait()
    assert not service.has_subscriber(f"job:{job_id}")
    assert not service.context.open_requests._open


async def test_revoking_the_key_ends_the_wait(service: Service) -> None:
    job_id = await service.create_job()
    headers = await service.key()
    call = watching(service, job_id, progress=False, headers=headers)
    await service.wait_for_subscriber(f"job:{job_id}")
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    assert (await result_of(call))["error"]["code"] == "unauthorized"


async def test_a_job_that_was_pruned_is_an_error(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("watch_job", {"job_id": "job_0"})
    assert error_code(result) == "job_not_found"
