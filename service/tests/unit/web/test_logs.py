"""A job's log as text and as server-sent events."""

import asyncio

import pytest

from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.jobs.model import LogChunk
from agentjobs.organizations.api_keys import revoke_key
from agentjobs.web.api.logs import log_event
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from service.tests.unit.web.service import ORGANIZATION, Service, refusal

EVENTS = {"Accept": "text/event-stream"}


async def claimed_job(service: Service, *texts: str) -> ClaimedJob:
    await service.create_job()
    job = await service.harness.claim()
    for text in texts:
        await append_chunk(service.harness.db, job, text)
    return job


async def test_the_text_is_everything_so_far(service: Service) -> None:
    job = await claimed_job(service, *(f"line {number}\n" for number in range(150)))
    response = await service.get(f"/v1/jobs/{job.id}/logs")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == "".join(f"line {number}\n" for number in range(150))


async def test_a_head_request_does_not_read_the_log(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await claimed_job(service, "one\n")
    monkeypatch.delattr("agentjobs.web.api.logs.read_chunks")
    response = await service.http.head(f"/v1/jobs/{job.id}/logs")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("tail_bytes", "text"),
    [
        (1_000, "one\ntwo é\nthree"),
        (15, "one\ntwo é\nthree"[4:]),
        (12, "two é\nthree"),
        (11, "three"),
        (5, "three"),
        (2, "ee"),
    ],
)
async def test_a_tail_has_the_lines_that_fit(service: Service, tail_bytes: int, text: str) -> None:
    job = await claimed_job(service, "one\ntw", "o é\n", "three")
    response = await service.get(f"/v1/jobs/{job.id}/logs?tail_bytes={tail_bytes}")
    assert response.text == text
    is_cut = tail_bytes < len("one\ntwo é\nthree".encode())
    assert response.headers["x-log-truncated"] == str(is_cut).lower()
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_tail_is_cut_between_characters_and_can_have_times(service: Service) -> None:
    job = await claimed_job(service, "éé\n", *("x\n" for _ in range(100)), "éé")
    path = f"/v1/jobs/{job.id}/logs"
    assert (await service.get(f"{path}?tail_bytes=3")).text == "é"
    long = await claimed_job(service, "y" * 100 + "\n")
    assert (await service.get(f"/v1/jobs/{long.id}/logs?tail_bytes=3")).text == "yy\n"
    timed = (await service.get(f"{path}?tail_bytes=60&timestamps=true")).text
    assert timed.startswith("20")
    assert timed.endswith("Z éé")
    assert (await service.get(f"{path}?tail_bytes=1000")).text.count("x") == 100
    for wrong in ("0", "1048577", "x"):
        response = await service.get(f"{path}?tail_bytes={wrong}")
        assert refusal(response) == (422, "validation_failed")


async def test_the_log_of_a_job_that_wrote_nothing_is_empty(service: Service) -> None:
    path = f"/v1/jobs/{await service.create_job()}/logs"
    for query in ("", "?tail_bytes=5"):
        response = await service.get(path + query)
        assert (response.status_code, response.text) == (200, "")


async def test_events_follow_the_log_and_end_with_the_job(service: Service) -> None:
    job = await claimed_job(service, "one\n")
    call = service.live(f"/v1/jobs/{job.id}/logs", **EVENTS)
    start = await call.start()
    assert (b"content-type", b"text/event-stream; charset=utf-8") in start["headers"]
    assert await call.body() == "retry: 1000\n\n"
    assert await call.body() == "id: 1\ndata: one\ndata: \n\n"
    await append_chunk(service.harness.db, job, "two")
    assert await call.body() == "id: 2\ndata: two\n\n"
    await service.post(f"/v1/jobs/{job.id}/cancel")
    assert await call.rest() == "event: end\ndata: cancelled\n\n"
    await call.wait()


async def test_a_stream_resumes_after_the_last_event_received(service: Service) -> None:
    job = await claimed_job(service, "a", "b", "c")
    await service.post(f"/v1/jobs/{job.id}/cancel")
    headers = {**EVENTS, "Last-Event-ID": "2"}
    response = await service.get(f"/v1/jobs/{job.id}/logs", headers=headers)
    assert response.text == ("retry: 1000\n\nid: 3\ndata: c\n\nevent: end\ndata: cancelled\n\n")


@pytest.mark.parametrize("last", ["", "-1", "x", "1.5", "9" * 17, "\u0661"])
async def test_an_invalid_last_event_id_is_refused(service: Service, last: str) -> None:
    job = await service.create_job()
    headers = {**EVENTS, "Last-Event-ID": last.encode()}
    response = await service.get(f"/v1/jobs/{job}/logs", headers=headers)
    assert refusal(response) == (422, "validation_failed")


async def test_a_shutdown_ends_the_stream_without_the_end_event(service: Service) -> None:
    job = await claimed_job(service, "one")
    call = service.live(f"/v1/jobs/{job.id}/logs", **EVENTS)
    await call.start()
    assert await call.body() == "retry: 1000\n\n"
    assert await call.body() == "id: 1\ndata: one\n\n"
    service.context.stopping.set()
    assert await call.rest() == ""
    await call.wait()


async def test_a_stopping_service_starts_no_stream(service: Service) -> None:
    job = await claimed_job(service, "one")
    service.context.stopping.set()
    response = await service.get(f"/v1/jobs/{job.id}/logs", headers=EVENTS)
    assert refusal(response) == (503, "unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert (await service.get(f"/v1/jobs/{job.id}/logs")).text == "one"


async def test_a_stream_ends_when_its_key_is_revoked(service: Service) -> None:
    job = await claimed_job(service)
    headers = await service.key()
    call = service.live(f"/v1/jobs/{job.id}/logs", **EVENTS, **headers)
    await call.start()
    assert await call.body() == "retry: 1000\n\n"
    await service.wait_for_subscriber(f"log:{job.id}")
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    async with asyncio.timeout(20):
        assert await call.rest() == ""
        await call.wait()
    assert not service.has_subscriber(f"log:{job.id}")


async def test_a_disconnected_reader_is_unsubscribed(service: Service) -> None:
    job = await claimed_job(service)
    call = service.live(f"/v1/jobs/{job.id}/logs", **EVENTS)
    await call.start()
    await service.wait_for_subscriber(f"log:{job.id}")
    call.leave()
    await call.wait()
    assert not service.has_subscriber(f"log:{job.id}")


async def test_an_idle_stream_sends_heartbeats(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.web.api.logs._HEARTBEAT_SECONDS", 0.01)
    job = await claimed_job(service)
    call = service.live(f"/v1/jobs/{job.id}/logs", **EVENTS)
    await call.start()
    assert await call.body() == "retry: 1000\n\n"
    assert await call.body() == ": still here\n\n"
    call.leave()
    await call.wait()


async def test_head_of_a_stream_ends_at_once(service: Service) -> None:
    job = await service.create_job()
    async with asyncio.timeout(30):
        response = await service.http.head(f"/v1/jobs/{job}/logs", headers=EVENTS)
    assert response.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a\nb", "data: a\ndata: b\n"),
        ("a\r\nb\r", "data: a\ndata: b\ndata: \n"),
        ("50%\r100%\r\n", "data: 50%\ndata: 100%\ndata: \n"),
        ("\n", "data: \ndata: \n"),
        ("event: end", "data: event: end\n"),
        ("x\u2028y\x85z\x0bw", "data: x\u2028y\x85z\x0bw\n"),
    ],
)
def test_log_text_cannot_forge_events(text: str, data: str) -> None:
    assert log_event(LogChunk(7, 0, text)) == f"id: 7\n{data}\n".encode()


async def job_with_timed_log(service: Service, *texts: str) -> ClaimedJob:
    """A job whose chunks are one second apart, starting at the epoch."""
    job = await claimed_job(service)
    for second, text in enumerate(texts):
        await append_chunk(service.harness.db, job, text, second * 1_000)
    return job


def stamp(second: int) -> str:
    return f"1970-01-01T00:00:0{second}.000Z "


async def test_every_line_has_a_timestamp_on_request(service: Service) -> None:
    job = await job_with_timed_log(service, "one\ntw", "o\n\nthree", "!\n")
    response = await service.get(f"/v1/jobs/{job.id}/logs?timestamps=true")
    assert response.text == (f"{stamp(0)}one\n{stamp(0)}two\n{stamp(1)}\n{stamp(1)}three!\n")
    plain = await service.get(f"/v1/jobs/{job.id}/logs?timestamps=false")
    assert plain.text == "one\ntwo\n\nthree!\n"


async def test_events_have_timestamps_also_when_resumed_inside_a_line(service: Service) -> None:
    job = await job_with_timed_log(service, "one\n", "tw", "o\r", "three")
    await service.post(f"/v1/jobs/{job.id}/cancel")
    path = f"/v1/jobs/{job.id}/logs?timestamps=true"
    whole = await service.get(path, headers=EVENTS)
    assert whole.text == (
        f"retry: 1000\n\nid: 1\ndata: {stamp(0)}one\ndata: \n\nid: 2\ndata: {stamp(1)}tw\n\n"
        f"id: 3\ndata: o\ndata: \n\nid: 4\ndata: {stamp(3)}three\n\n"
        "event: end\ndata: cancelled\n\n"
    )
    for last in range(1, 4):
        headers = {**EVENTS, "Last-Event-ID": str(last)}
        rest = (await service.get(path, headers=headers)).text.removeprefix("retry: 1000\n\n")
        assert rest
        assert whole.text.endswith("\n\n" + rest)


async def test_an_invalid_timestamps_parameter_is_refused(service: Service) -> None:
    job = await service.create_job()
    response = await service.get(f"/v1/jobs/{job}/logs?timestamps=maybe")
    assert refusal(response) == (422, "validation_failed")
