"""The long-poll: answered by change, clock or shutdown; given up when nobody listens."""

import asyncio
import json

import pytest

from agentjobs.web.api.presence import Gone, while_present
from tests.unit.web.service import LiveCall, Service, refusal


async def waiting_call(service: Service, job: str) -> LiveCall:
    call = service.live(f"/v1/jobs/{job}?wait_seconds=60")
    await service.listened_to(f"job:{job}")
    return call


async def answered_job(call: LiveCall) -> dict[str, object]:
    assert (await call.start())["status"] == 200
    message = await call.sent.get()
    await call.ended()
    job: dict[str, object] = json.loads(message["body"])
    return job


async def test_the_answer_comes_with_the_change(service: Service) -> None:
    job = await service.created()
    call = await waiting_call(service, job)
    await service.post(f"/v1/jobs/{job}/cancel")
    assert (await answered_job(call))["status"] == "cancelled"


async def test_a_finished_job_is_answered_at_once(service: Service) -> None:
    job = await service.created()
    await service.post(f"/v1/jobs/{job}/cancel")
    async with asyncio.timeout(5):
        answer = await service.get(f"/v1/jobs/{job}?wait_seconds=60")
    assert answer.json()["status"] == "cancelled"


async def test_the_job_is_answered_as_it_is_when_time_is_up(service: Service) -> None:
    job = await service.created()
    async with asyncio.timeout(5):
        answer = await service.get(f"/v1/jobs/{job}?wait_seconds=1")
    assert answer.json()["status"] == "queued"


async def test_a_shutdown_answers_who_waits(service: Service) -> None:
    job = await service.created()
    call = await waiting_call(service, job)
    service.context.stopping.set()
    assert (await answered_job(call))["status"] == "queued"


async def test_a_client_that_leaves_is_not_waited_for(service: Service) -> None:
    job = await service.created()
    call = await waiting_call(service, job)
    call.leave()
    await call.ended()
    assert call.sent.empty()
    assert not service.hears(f"job:{job}")


@pytest.mark.parametrize("seconds", ["-1", "61", "1.5", "soon", ""])
async def test_a_bad_wait_is_refused(service: Service, seconds: str) -> None:
    job = await service.created()
    answer = await service.get(f"/v1/jobs/{job}?wait_seconds={seconds}")
    assert refusal(answer) == (422, "validation_failed")


async def test_work_that_fails_fails_for_the_one_who_waits() -> None:
    async def work() -> None:
        raise LookupError

    async def receive() -> dict[str, object]:
        return await asyncio.Future()

    with pytest.raises(LookupError):
        await while_present(work(), receive, asyncio.Event())


async def test_given_up_work_is_cancelled_before_the_answer() -> None:
    ended = asyncio.Event()
    stopping = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Future()
        finally:
            ended.set()

    async def receive() -> dict[str, object]:
        stopping.set()
        return await asyncio.Future()

    assert await while_present(work(), receive, stopping) is Gone.SERVICE
    assert ended.is_set()
