"""Long polling: responses on change, timeout and shutdown; cancelled on disconnect."""

import asyncio
import json

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.api_keys import KeyChanges, edit_key, list_keys, revoke_key
from agentjobs.web.api.connected import Interruption, run_while_connected
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.protocol.outcomes import Failed
from service.tests.unit.web.service import ORGANIZATION, LiveCall, Service, refusal


async def waiting_call(service: Service, job: str) -> LiveCall:
    call = service.live(f"/v1/jobs/{job}?wait_seconds=60")
    await service.wait_for_subscriber(f"job:{job}")
    return call


async def wait_forever() -> None:
    await asyncio.Future()


async def read_job(call: LiveCall) -> dict[str, object]:
    assert (await call.start())["status"] == 200
    message = await call.sent.get()
    await call.wait()
    job: dict[str, object] = json.loads(message["body"])
    return job


async def test_a_change_of_the_job_ends_the_wait(service: Service) -> None:
    job = await service.create_job()
    call = await waiting_call(service, job)
    await service.post(f"/v1/jobs/{job}/cancel")
    assert (await read_job(call))["status"] == "cancelled"


async def test_the_wait_for_the_end_is_not_ended_by_other_changes(service: Service) -> None:
    job = await service.create_job()
    call = service.live(f"/v1/jobs/{job}?wait_seconds=60&wait_for=final")
    await service.wait_for_subscriber(f"job:{job}")
    claimed = await service.harness.claim()
    await start_job(service.context.db, claimed, "1" * 40)
    await finish_job(service.context.db, claimed, Failed("no_changes", ""))
    assert (await read_job(call))["status"] == "failed"


async def test_the_wait_for_the_end_has_its_timeout_too(service: Service) -> None:
    job = await service.create_job()
    async with asyncio.timeout(30):
        response = await service.get(f"/v1/jobs/{job}?wait_seconds=1&wait_for=final")
    assert response.json()["status"] == "queued"


async def test_a_wait_for_something_else_is_refused(service: Service) -> None:
    job = await service.create_job()
    response = await service.get(f"/v1/jobs/{job}?wait_seconds=1&wait_for=ever")
    assert refusal(response) == (422, "validation_failed")


async def test_a_finished_job_is_returned_at_once(service: Service) -> None:
    job = await service.create_job()
    await service.post(f"/v1/jobs/{job}/cancel")
    async with asyncio.timeout(30):
        response = await service.get(f"/v1/jobs/{job}?wait_seconds=60")
    assert response.json()["status"] == "cancelled"


async def test_the_unchanged_job_is_returned_after_the_timeout(service: Service) -> None:
    job = await service.create_job()
    async with asyncio.timeout(30):
        response = await service.get(f"/v1/jobs/{job}?wait_seconds=1")
    assert response.json()["status"] == "queued"


async def test_a_shutdown_ends_the_wait(service: Service) -> None:
    job = await service.create_job()
    call = await waiting_call(service, job)
    service.context.stopping.set()
    assert (await read_job(call))["status"] == "queued"


async def test_a_disconnect_cancels_the_wait(service: Service) -> None:
    job = await service.create_job()
    call = await waiting_call(service, job)
    call.leave()
    await call.wait()
    assert call.sent.empty()
    assert not service.has_subscriber(f"job:{job}")


async def test_a_stopping_service_refuses_to_wait(service: Service) -> None:
    job = await service.create_job()
    service.context.stopping.set()
    response = await service.get(f"/v1/jobs/{job}?wait_seconds=1")
    assert refusal(response) == (503, "unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert (await service.get(f"/v1/jobs/{job}?wait_seconds=0")).status_code == 200


async def test_revoking_the_key_ends_the_wait(service: Service) -> None:
    job = await service.create_job()
    headers = await service.key()
    call = service.live(f"/v1/jobs/{job}?wait_seconds=60", **headers)
    await service.wait_for_subscriber(f"job:{job}")
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    async with asyncio.timeout(20):
        assert (await call.start())["status"] == 401
        await call.wait()
    assert not service.has_subscriber(f"job:{job}")


async def test_revoking_another_key_does_not_end_the_wait(service: Service) -> None:
    job = await service.create_job()
    call = await waiting_call(service, job)
    other = await service.key()
    await revoke_key(service.harness.db, ORGANIZATION, other["Authorization"].split()[1])
    await service.post(f"/v1/jobs/{job}/cancel")
    assert (await read_job(call))["status"] == "cancelled"


async def test_an_expiring_key_ends_the_wait(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.web.api.auth._EXPIRY_CHECK_SECONDS", 0.01)
    job = await service.create_job()

    async def tomorrow() -> int:
        return now_ms() + 2 * DAY_MS

    headers = await service.key(expires_at=now_ms() + DAY_MS)
    expiring = service.live(f"/v1/jobs/{job}?wait_seconds=60", **headers)
    await service.wait_for_subscriber(f"job:{job}")
    monkeypatch.setattr(service.harness.db, "clock_ms", tomorrow)
    assert (await expiring.start())["status"] == 401
    await expiring.wait()


@pytest.mark.parametrize("seconds", ["-1", "61", "1.5", "soon", ""])
async def test_an_invalid_wait_is_refused(service: Service, seconds: str) -> None:
    job = await service.create_job()
    response = await service.get(f"/v1/jobs/{job}?wait_seconds={seconds}")
    assert refusal(response) == (422, "validation_failed")


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise LookupError

    async def receive() -> dict[str, object]:
        return await asyncio.Future()

    with pytest.raises(LookupError):
        await run_while_connected(work(), receive, asyncio.Event(), wait_forever())


async def test_interrupted_work_is_cancelled_before_the_response() -> None:
    cancelled = asyncio.Event()
    stopping = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Future()
        finally:
            cancelled.set()

    async def receive() -> dict[str, object]:
        stopping.set()
        return await asyncio.Future()

    assert (
        await run_while_connected(work(), receive, stopping, wait_forever()) is Interruption.SERVICE
    )
    assert cancelled.is_set()


async def test_a_key_that_is_limited_to_another_network_ends_the_wait(service: Service) -> None:
    job = await service.create_job()
    call = await waiting_call(service, job)
    changes = KeyChanges(allowed_networks=["192.0.2.0/24"])
    for key in await list_keys(service.harness.db, ORGANIZATION):
        await edit_key(service.harness.db, ORGANIZATION, key.id, changes)
    assert (await call.start())["status"] == 401
