"""The long-poll: answered by change, clock or shutdown; given up when nobody listens."""

import asyncio
import json

import pytest

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.organizations.api_keys import revoke_key
from agentjobs.web.api.connected import Interruption, run_while_connected
from tests.unit.web.service import ORGANIZATION, LiveCall, Service, refusal


async def waiting_call(service: Service, job: str) -> LiveCall:
    call = service.live(f"/v1/jobs/{job}?wait_seconds=60")
    await service.listened_to(f"job:{job}")
    return call


async def for_ever() -> None:
    await asyncio.Future()


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


async def test_a_service_that_stops_lets_nobody_start_to_wait(service: Service) -> None:
    job = await service.created()
    service.context.stopping.set()
    answer = await service.get(f"/v1/jobs/{job}?wait_seconds=1")
    assert refusal(answer) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert (await service.get(f"/v1/jobs/{job}?wait_seconds=0")).status_code == 200


async def test_who_waits_with_a_key_that_is_revoked_is_refused(service: Service) -> None:
    job = await service.created()
    headers = await service.key()
    call = service.live(f"/v1/jobs/{job}?wait_seconds=60", **headers)
    await service.listened_to(f"job:{job}")
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    async with asyncio.timeout(1):
        assert (await call.start())["status"] == 401
        await call.ended()
    assert not service.hears(f"job:{job}")


async def test_another_key_that_is_revoked_disturbs_nobody(service: Service) -> None:
    job = await service.created()
    call = await waiting_call(service, job)
    other = await service.key()
    await revoke_key(service.harness.db, ORGANIZATION, other["Authorization"].split()[1])
    await service.post(f"/v1/jobs/{job}/cancel")
    assert (await answered_job(call))["status"] == "cancelled"


async def test_a_key_that_expires_while_it_waits_is_noticed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.web.api.auth._EXPIRY_CHECK_SECONDS", 0.01)
    job = await service.created()
    tomorrow = now_ms() + 2 * DAY_MS
    headers = await service.key(expires_days=1)
    expiring = service.live(f"/v1/jobs/{job}?wait_seconds=60", **headers)
    await service.listened_to(f"job:{job}")
    monkeypatch.setattr("agentjobs.organizations.authentication.now_ms", lambda: tomorrow)
    assert (await expiring.start())["status"] == 401
    await expiring.ended()


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
        await run_while_connected(work(), receive, asyncio.Event(), for_ever())


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

    assert await run_while_connected(work(), receive, stopping, for_ever()) is Interruption.SERVICE
    assert ended.is_set()
