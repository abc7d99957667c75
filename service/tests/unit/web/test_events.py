"""`GET /v1/events`: pages, cursors, waiting."""

import asyncio
import json
from typing import Any

import pytest

from agentjobs.organizations.api_keys import revoke_key
from service.tests.unit.web.service import ORGANIZATION, LiveCall, Service, refusal


async def page(service: Service, query: str = "", **options: Any) -> dict[str, Any]:
    response = await service.get(f"/v1/events{query}", **options)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def end_of(service: Service) -> str:
    cursor: str = (await page(service))["next_cursor"]
    return cursor


async def waiting_call(service: Service, cursor: str, **headers: str) -> LiveCall:
    call = service.live(f"/v1/events?wait_seconds=60&cursor={cursor}", **headers)
    await service.wait_for_subscriber(f"events:{service.caller.organization_id}")
    return call


async def read_page(call: LiveCall) -> dict[str, Any]:
    assert (await call.start())["status"] == 200
    message = await call.sent.get()
    await call.wait()
    body: dict[str, Any] = json.loads(message["body"])
    return body


async def test_events_of_all_jobs_are_listed_with_what_webhooks_receive(service: Service) -> None:
    job = await service.create_job()
    await service.post(f"/v1/jobs/{job}/cancel")
    listed = await page(service)
    of_job = (await service.get(f"/v1/jobs/{job}/events")).json()["events"]
    assert listed["events"] == [{**event, "job_id": job} for event in of_job]
    assert [event["event"] for event in listed["events"]] == ["job.queued", "job.failed"]
    assert not listed["has_more"]


async def test_every_page_has_the_cursor_of_the_next_request(service: Service) -> None:
    empty = await page(service)
    assert (empty["events"], empty["has_more"]) == ([], False)
    jobs = [await service.create_job() for _ in range(3)]
    first = await page(service, f"?limit=2&cursor={empty['next_cursor']}")
    assert ([event["job_id"] for event in first["events"]], first["has_more"]) == (jobs[:2], True)
    rest = await page(service, f"?limit=2&cursor={first['next_cursor']}")
    assert ([event["job_id"] for event in rest["events"]], rest["has_more"]) == (jobs[2:], False)
    later = await service.create_job()
    last = await page(service, f"?cursor={rest['next_cursor']}")
    assert [event["job_id"] for event in last["events"]] == [later]


async def test_a_full_last_page_says_that_there_is_no_more(service: Service) -> None:
    await service.create_job()
    assert not (await page(service, "?limit=1"))["has_more"]


async def test_another_organization_sees_nothing_and_its_cursor_is_refused(
    service: Service,
) -> None:
    await service.harness.organization("other")
    headers = await service.key("other")
    await service.create_job()
    foreign = await page(service, headers=headers)
    assert foreign["events"] == []
    response = await service.get(f"/v1/events?cursor={foreign['next_cursor']}")
    assert refusal(response) == (422, "validation_failed")


async def test_a_read_only_key_lists_events(service: Service) -> None:
    await service.create_job()
    headers = await service.key(scope="read")
    assert len((await page(service, headers=headers))["events"]) == 1


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "wait_seconds=61",
        "wait_seconds=-1",
        "cursor=",
        "cursor=am9icyB4",
        "cursor=ZXZlbnRzIDA",
        "cursor=%00",
        f"cursor={'A' * 513}",
    ],
)
async def test_an_invalid_query_is_refused(service: Service, query: str) -> None:
    assert refusal(await service.get(f"/v1/events?{query}")) == (422, "validation_failed")


async def test_an_event_ends_the_wait(service: Service) -> None:
    call = await waiting_call(service, await end_of(service))
    job = await service.create_job()
    assert [event["job_id"] for event in (await read_page(call))["events"]] == [job]


async def test_events_that_are_there_already_are_returned_at_once(service: Service) -> None:
    await service.create_job()
    async with asyncio.timeout(30):
        assert (await page(service, "?wait_seconds=60"))["events"]


async def test_an_event_of_another_organization_does_not_end_the_wait(service: Service) -> None:
    other = await service.harness.organization("other")
    call = await waiting_call(service, await end_of(service))
    await service.harness.job(other)
    job = await service.create_job()
    assert [event["job_id"] for event in (await read_page(call))["events"]] == [job]


async def test_the_same_cursor_is_returned_after_the_timeout(service: Service) -> None:
    cursor = await end_of(service)
    async with asyncio.timeout(30):
        waited = await page(service, f"?wait_seconds=1&cursor={cursor}")
    assert waited == {"events": [], "next_cursor": cursor, "has_more": False}


async def test_a_shutdown_ends_the_wait_with_the_same_cursor(service: Service) -> None:
    cursor = await end_of(service)
    call = await waiting_call(service, cursor)
    service.context.stopping.set()
    assert (await read_page(call))["next_cursor"] == cursor


async def test_a_stopping_service_refuses_to_wait(service: Service) -> None:
    service.context.stopping.set()
    assert refusal(await service.get("/v1/events?wait_seconds=1")) == (503, "unavailable")


async def test_revoking_the_key_ends_the_wait(service: Service) -> None:
    headers = await service.key()
    call = await waiting_call(service, await end_of(service), **headers)
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    assert (await call.start())["status"] == 401
    await call.wait()
    assert not service.has_subscriber(f"events:{service.caller.organization_id}")


async def test_a_disconnect_cancels_the_wait(service: Service) -> None:
    call = await waiting_call(service, await end_of(service))
    call.leave()
    await call.wait()
    assert call.sent.empty()
    assert not service.has_subscriber(f"events:{service.caller.organization_id}")
