"""How both clients retry while the service is unreachable, stopping or behind a proxy."""

import httpx
import pytest

from agentjobs_client import ApiError, ServiceUnreachable, UnexpectedAnswer
from service.tests.unit.client.test_calls import (
    Caller,
    fake_service,
    job_response,
    log_events,
    proxy_page,
    receipt,
    refusal,
)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def caller(request):
    return Caller(request.param)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_proxys_error_page_is_retried_like_an_error_of_the_service(caller, status):
    handle, requests = fake_service(proxy_page(status, **{"Retry-After": "7"}), receipt())
    assert caller.call(handle, "create_job", "a/b", "lint-fixer").job_id == "job_1"
    assert len({request.headers["idempotency-key"] for request in requests}) == 1
    assert caller.pauses == [7.0]


def test_a_persistent_error_page_of_a_proxy_is_raised_with_its_status(caller):
    handle, requests = fake_service(*[proxy_page(502) for _ in range(9)])
    with pytest.raises(UnexpectedAnswer) as caught:
        caller.call(handle, "agents")
    assert (caught.value.status, caught.value.retry_after_seconds) == (502, None)
    assert len(requests) == 5


def test_a_cancel_that_worked_succeeds_even_if_its_response_was_lost(caller):
    handle, requests = fake_service(
        httpx.ReadError("reset"), refusal(409, "job_finished"), job_response("cancelled")
    )
    assert caller.call(handle, "cancel", "job_1").status == "cancelled"
    assert [request.method for request in requests] == ["POST", "POST", "GET"]


def test_a_cancel_after_the_job_finished_is_refused_on_every_attempt(caller):
    handle, _ = fake_service(
        httpx.ReadError("reset"), refusal(409, "job_finished"), job_response("completed")
    )
    with pytest.raises(ApiError, match="job_finished"):
        caller.call(handle, "cancel", "job_1")


def test_a_cancel_of_a_finished_job_is_refused_without_further_calls(caller):
    handle, requests = fake_service(refusal(409, "job_finished"))
    with pytest.raises(ApiError, match="job_finished"):
        caller.call(handle, "cancel", "job_1")
    assert len(requests) == 1


def test_a_service_that_never_waits_is_polled_about_once_a_second(caller):
    handle, requests = fake_service(
        *[job_response("running") for _ in range(20)], job_response("completed")
    )
    assert caller.call(handle, "watch", "job_1")[-1].status == "completed"
    # The first answer is news; only those that tell nothing new are followed by a pause.
    assert len(caller.pauses) == len(requests) - 2
    assert all(0.7 < pause < 1.3 for pause in caller.pauses)
    assert len(set(caller.pauses)) > 1


def test_a_long_poll_that_waited_is_repeated_without_delay(caller):
    responses = [job_response("running"), job_response("running"), job_response("completed")]

    def handle(request: httpx.Request) -> httpx.Response:
        caller.now += float(request.url.params.get("wait_seconds", 0))
        return responses.pop(0)

    caller.call(handle, "wait", "job_1")
    assert sum(caller.pauses) == 0


def test_watch_yields_a_job_once_per_status(caller):
    states = ["queued", "queued", "running", "running", "queued", "running", "failed"]
    handle, _ = fake_service(*[job_response(state) for state in states])
    statuses = [job.status for job in caller.call(handle, "watch", "job_1")]
    assert statuses == ["queued", "running", "queued", "running", "failed"]


@pytest.mark.parametrize(
    ("name", "options", "last"),
    [
        ("wait", {}, lambda: job_response("completed")),
        ("logs", {"follow": True}, lambda: log_events("event: end\ndata: completed\n\n")),
    ],
)
def test_the_client_waits_for_a_service_that_is_down_for_a_minute(caller, name, options, last):
    def handle(request: httpx.Request) -> httpx.Response:
        if caller.now < 1010:
            return refusal(503, "unavailable", **{"Retry-After": "5"})
        if caller.now < 1060:
            raise httpx.ConnectError("refused")
        return last()

    caller.call(handle, name, "job_1", **options)
    assert caller.pauses[0] == 5.0
    assert len(caller.pauses) > 5


@pytest.mark.parametrize(("name", "options"), [("wait", {}), ("logs", {"follow": True})])
def test_the_client_gives_up_after_two_minutes(caller, name, options):
    responses = [refusal(503, "unavailable")]

    def handle(request: httpx.Request) -> httpx.Response:
        if responses:
            return responses.pop()
        raise httpx.ConnectError("refused")

    with pytest.raises(ServiceUnreachable):
        caller.call(handle, name, "job_1", **options)
    assert 110 < caller.now - 1000 <= 122


@pytest.mark.parametrize(("name", "options"), [("wait", {}), ("logs", {"follow": True})])
def test_an_address_that_never_responded_fails_soon(caller, name, options):
    def handle(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ServiceUnreachable):
        caller.call(handle, name, "job_1", **options)
    assert caller.now - 1000 < 10


def test_a_response_resets_the_time_that_the_service_was_down(caller):
    away = [refusal(503, "unavailable", **{"Retry-After": "30"}) for _ in range(3)]
    handle, _ = fake_service(
        *away, job_response("queued"), *away, job_response("running"), *away, job_response("failed")
    )
    assert caller.call(handle, "wait", "job_1").status == "failed"
    assert sum(caller.pauses) == 270


def test_a_followed_log_survives_repeated_disconnects_of_a_silent_job(caller):
    end = log_events("event: end\ndata: completed\n\n")
    handle, _ = fake_service(*[log_events("retry: 1000\n\n") for _ in range(300)], end)
    assert caller.call(handle, "logs", "job_1", follow=True) == []
    assert min(caller.pauses) > 0.7


def test_a_response_that_is_not_an_event_stream_is_refused(caller):
    handle, requests = fake_service(httpx.Response(200, html="<h1>Welcome</h1>"))
    with pytest.raises(UnexpectedAnswer):
        caller.call(handle, "logs", "job_1", follow=True)
    assert len(requests) == 1


@pytest.mark.parametrize("call", [("diff", "job_1"), ("logs", "job_1"), ("artifact", "job_1", "a")])
def test_a_page_of_a_proxy_is_neither_a_diff_nor_a_log_nor_an_artifact(caller, call):
    handle, _ = fake_service(httpx.Response(200, html="<h1>Sign in</h1>"))
    with pytest.raises(UnexpectedAnswer, match="web page"):
        caller.call(handle, *call)


def test_a_tls_connection_that_is_cut_is_tried_again(caller):
    cut = httpx.ReadError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred")
    handle, _ = fake_service(cut, job_response("queued"))
    assert caller.call(handle, "job", "job_1").status == "queued"
