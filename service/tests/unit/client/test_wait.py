"""Waiting for a job with a time limit, and following the events of an organization."""

from datetime import timedelta

import httpx
import pytest

from agentjobs_client import JobNotFound, ServiceUnreachable, WaitTimeout
from service.tests.unit.client.test_calls import Caller, fake_service, job_response, refusal


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def caller(request):
    return Caller(request.param)


def waiting_service(caller, status="running"):
    """Waits as long as it is asked to, and the job never changes."""
    requests = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        caller.now += float(request.url.params.get("wait_seconds", 0))
        return job_response(status)

    return handle, requests


@pytest.mark.parametrize("timeout", [90.5, timedelta(seconds=90.5)])
def test_a_wait_ends_at_its_timeout_with_the_last_job(caller, timeout):
    handle, requests = waiting_service(caller)
    with pytest.raises(WaitTimeout, match=r"job_1 is still running after 90.5 s") as caught:
        caller.call(handle, "wait", "job_1", timeout=timeout)
    assert caught.value.job.status == "running"
    assert caller.now == pytest.approx(1090.5)
    assert [request.url.params["wait_seconds"] for request in requests[1:3]] == ["60", "30"]
    assert len(requests) <= 6


def test_a_wait_without_time_asks_once(caller):
    handle, requests = waiting_service(caller)
    with pytest.raises(WaitTimeout):
        caller.call(handle, "wait", "job_1", timeout=0)
    assert len(requests) == 1
    assert caller.pauses == []


def test_a_job_that_finishes_in_time_is_returned(caller):
    handle, _ = fake_service(job_response("running"), job_response("failed"))
    assert caller.call(handle, "wait", "job_1", timeout=5).status == "failed"


def test_an_older_service_that_returns_at_every_change_is_asked_again_at_once(caller):
    states = ["queued", "running", "completed"]
    handle, _ = fake_service(*[job_response(state) for state in states])
    caller.call(handle, "wait", "job_1")
    assert sum(caller.pauses) == 0


def test_a_service_that_goes_away_does_not_prolong_the_wait(caller):
    responses = [job_response("running")]

    def handle(request: httpx.Request) -> httpx.Response:
        if responses:
            return responses.pop()
        raise httpx.ConnectError("refused")

    with pytest.raises(WaitTimeout) as caught:
        caller.call(handle, "wait", "job_1", timeout=10)
    assert isinstance(caught.value.__cause__, ServiceUnreachable)
    assert caller.now <= 1010


def test_a_service_that_never_responds_within_the_timeout_is_unreachable(caller):
    def handle(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"]["read"] <= 7
        caller.now += 7
        raise httpx.ReadTimeout("timed out")

    with pytest.raises(ServiceUnreachable):
        caller.call(handle, "wait", "job_1", timeout=2)
    assert caller.now == 1007


def test_a_service_that_is_killed_during_the_first_long_poll_is_waited_for(caller):
    responses = [httpx.ReadError("reset"), job_response("running")]

    def handle(request: httpx.Request) -> httpx.Response:
        response = responses.pop() if responses else httpx.ConnectError("refused")
        if caller.now > 1060:
            return job_response("completed")
        if isinstance(response, Exception):
            raise response
        return response

    assert caller.call(handle, "wait", "job_1").status == "completed"


def test_waiting_for_an_unknown_job_is_refused(caller):
    handle, _ = fake_service(refusal(404, "job_not_found"))
    with pytest.raises(JobNotFound):
        caller.call(handle, "wait", "job_1", timeout=5)


@pytest.mark.parametrize("timeout", [-1, float("nan"), timedelta(seconds=-1)])
def test_a_timeout_below_zero_is_refused_before_any_request(caller, timeout):
    handle, requests = fake_service()
    with pytest.raises(ValueError, match="timeout"):
        caller.call(handle, "wait", "job_1", timeout=timeout)
    assert requests == []


def event(number: int) -> dict:
    return {
        "id": f"evt_{number}",
        "event": "job.queued",
        "sequence": 1,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "payload": {},
        "job_id": "job_1",
    }


def event_page(*numbers: int, cursor: str, has_more: bool = False) -> httpx.Response:
    events = [event(number) for number in numbers]
    return httpx.Response(200, json={"events": events, "next_cursor": cursor, "has_more": has_more})


def test_events_are_read_page_by_page_up_to_the_last_one(caller):
    handle, requests = fake_service(
        event_page(1, 2, cursor="c2", has_more=True), event_page(3, cursor="c3")
    )
    events = caller.call(handle, "events", cursor="c0")
    assert [event.id for event in events] == ["evt_1", "evt_2", "evt_3"]
    assert events[0].job_id == "job_1"
    assert [request.url.params["cursor"] for request in requests] == ["c0", "c2"]
    assert {request.url.params.get("wait_seconds") for request in requests} == {None}


def test_the_cursor_after_the_last_event_is_known_even_without_events(caller):
    handle, _ = fake_service(event_page(cursor="c9"))
    assert [page.next_cursor for page in caller.call(handle, "event_pages")] == ["c9"]


def test_followed_events_are_waited_for_and_survive_a_restart(caller):
    handle, requests = fake_service(
        event_page(1, cursor="c1"),
        event_page(cursor="c1"),
        refusal(503, "unavailable"),
        httpx.ConnectError("refused"),
        event_page(2, cursor="c2"),
        refusal(401, "unauthorized"),
    )
    seen = []
    with pytest.raises(Exception, match="unauthorized"):
        caller.each(handle, seen.append, "event_pages", follow=True)
    assert [page.next_cursor for page in seen] == ["c1", "c2"]
    assert [request.url.params.get("cursor") for request in requests] == [None, *["c1"] * 4, "c2"]
    assert requests[1].url.params["wait_seconds"] == "60"
