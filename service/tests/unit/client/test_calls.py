"""The sync and the async client behave the same against a fake service."""

import asyncio
import inspect
import json
from collections.abc import Callable

import httpx
import pytest

from agentjobs_client import (
    ApiError,
    AsyncClient,
    Client,
    ClientError,
    ServiceUnreachable,
    UnexpectedAnswer,
    connection,
)

Handler = Callable[[httpx.Request], httpx.Response]
KEY = "ajk_test"
JOB = {"job_id": "job_1", "status": "queued", "agent": "lint-fixer"}


class Caller:
    """Calls the sync or the async client by method name, so that one test covers both."""

    def __init__(self, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self.pauses: list[float] = []
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def call(self, handler: Handler, name: str, *args, **kwargs):
        """The result of the call, as a list if it is an iterator."""
        items: list[object] = []
        result = self.each(handler, items.append, name, *args, **kwargs)
        return items if result is None else result

    def each(self, handler: Handler, use: Callable[[object], None], name: str, *args, **kwargs):
        """Calls `use` with each item of an iterator, or returns the result of the call."""
        transport = httpx.MockTransport(handler)
        if self._asynchronous:
            return asyncio.run(self._each_async(transport, use, name, args, kwargs))
        with Client(
            "http://test/v1", KEY, transport=transport, pause=self.pause, clock=self.clock
        ) as client:
            response = getattr(client, name)(*args, **kwargs)
            if not inspect.isgenerator(response):
                return response
            for item in response:
                use(item)
            return None

    async def _each_async(self, transport, use, name, args, kwargs):
        async def pause(seconds: float) -> None:
            self.pause(seconds)

        async with AsyncClient(
            "http://test/v1", KEY, transport=transport, pause=pause, clock=self.clock
        ) as client:
            response = getattr(client, name)(*args, **kwargs)
            if not inspect.isasyncgen(response):
                return await response
            async for item in response:
                use(item)
            return None


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def caller(request):
    return Caller(request.param)


def fake_service(*responses: httpx.Response | Exception) -> tuple[Handler, list[httpx.Request]]:
    """A handler that returns these responses in order, and the requests it received."""
    remaining, requests = list(responses), []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        response = remaining.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    return handle, requests


def refusal(status: int, code: str, details=None, **headers: str) -> httpx.Response:
    error = {"code": code, "message": "Do this next.", "request_id": "req_1", "details": details}
    return httpx.Response(status, json={"error": error}, headers=headers)


def job_response(status: str) -> httpx.Response:
    return httpx.Response(200, json={**JOB, "status": status})


def log_events(text: str) -> httpx.Response:
    return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})


def proxy_page(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, html="<h1>Bad Gateway</h1>", headers=headers)


def receipt() -> httpx.Response:
    return httpx.Response(
        202, json={"job_id": "job_1", "status": "queued", "estimated_start_ms": 5, "new": True}
    )


def test_agents_and_repos_ignore_fields_of_a_newer_service(caller):
    agent = {"id": "a", "name": "A", "available": True, "plan_required": "free", "colour": "red"}
    handle, requests = fake_service(
        httpx.Response(200, json={"agents": [agent], "next_cursor": None})
    )
    assert [item.id for item in caller.call(handle, "agents")] == ["a"]
    assert requests[0].url.path == "/v1/agents"
    assert requests[0].headers["authorization"] == f"Bearer {KEY}"

    repo = {"id": "repo_1", "full_name": "a/b", "platform": "local", "index_status": "ready"}
    handle, _ = fake_service(httpx.Response(200, json={"repos": [{**repo, "line_count": 3}]}))
    result = caller.call(handle, "repos")
    assert result[0].accepts_jobs
    assert result[0].index_error is None


def test_a_creation_contains_only_the_given_fields_and_an_idempotency_key(caller):
    handle, requests = fake_service(receipt())
    created = caller.call(handle, "create_job", "a/b", "lint-fixer")
    assert (created.job_id, created.estimated_start_ms) == ("job_1", 5)
    assert json.loads(requests[0].content) == {"repo": "a/b", "agent": "lint-fixer"}
    assert requests[0].headers["content-type"] == "application/json"
    assert len(requests[0].headers["idempotency-key"]) >= 32


def test_a_creation_whose_response_was_lost_is_retried_with_the_same_key(caller):
    handle, requests = fake_service(
        httpx.ReadError("reset"), refusal(503, "unavailable"), receipt()
    )
    assert caller.call(handle, "create_job", "a/b", "lint-fixer").job_id == "job_1"
    assert len({request.headers["idempotency-key"] for request in requests}) == 1
    assert len(caller.pauses) == 2


def test_a_retry_respects_retry_after(caller):
    handle, _ = fake_service(refusal(429, "rate_limited", **{"Retry-After": "7"}), receipt())
    caller.call(handle, "create_job", "a/b", "lint-fixer")
    assert caller.pauses == [7.0]


def test_an_error_that_is_not_retryable_is_raised_at_once_with_its_details(caller):
    details = [{"field": "repo", "message": "is missing"}]
    handle, requests = fake_service(refusal(422, "validation_failed", details))
    with pytest.raises(ApiError) as caught:
        caller.call(handle, "create_job", "", "lint-fixer")
    error = caught.value
    assert (error.status, error.code, error.request_id) == (422, "validation_failed", "req_1")
    assert error.details == details
    assert "repo: is missing" in str(error)
    assert len(requests) == 1


def test_a_repository_that_is_indexing_is_not_retried(caller):
    handle, requests = fake_service(refusal(409, "repo_indexing", **{"Retry-After": "2"}))
    with pytest.raises(ApiError) as caught:
        caller.call(handle, "create_job", "a/b", "lint-fixer")
    assert caught.value.retry_after_seconds == 2
    assert len(requests) == 1


def test_a_service_that_never_responds_is_reported_with_its_address(caller):
    handle, requests = fake_service(*[httpx.ConnectError("refused") for _ in range(9)])
    with pytest.raises(ServiceUnreachable, match="http://test/v1/ cannot be reached: refused"):
        caller.call(handle, "agents")
    assert len(requests) == 5


@pytest.mark.parametrize("status", [200, 404])
def test_a_response_in_an_unknown_format_is_reported_as_such(caller, status):
    handle, _ = fake_service(httpx.Response(status, text="<html>hello</html>"))
    with pytest.raises(UnexpectedAnswer):
        caller.call(handle, "agents")


def test_wait_returns_when_the_job_is_finished(caller):
    states = ["queued", "queued", "running", "completed"]
    handle, requests = fake_service(*[job_response(state) for state in states])
    assert caller.call(handle, "wait", "job_1").status == "completed"
    later = b"wait_seconds=60&wait_for=final"
    assert [request.url.query for request in requests] == [b"", later, later, later]


def test_every_page_of_jobs_is_read(caller):
    handle, requests = fake_service(
        httpx.Response(200, json={"jobs": [JOB], "next_cursor": "c1"}),
        httpx.Response(200, json={"jobs": [{**JOB, "job_id": "job_0"}], "next_cursor": None}),
    )
    result = caller.call(handle, "jobs", status="queued")
    assert [job.job_id for job in result] == ["job_1", "job_0"]
    assert [request.url.params.get("cursor") for request in requests] == [None, "c1"]
    assert {request.url.params["status"] for request in requests} == {"queued"}


def test_a_job_identifier_is_escaped_in_the_url(caller):
    handle, requests = fake_service(refusal(404, "job_not_found"))
    with pytest.raises(ApiError):
        caller.call(handle, "cancel", "../agents?x=1")
    assert requests[0].url.raw_path == b"/v1/jobs/..%2Fagents%3Fx%3D1/cancel"


def test_events_of_a_job_are_read(caller):
    event = {
        "id": "evt_1",
        "event": "job.queued",
        "sequence": 1,
        "timestamp": "2026-01-01T00:00:00Z",
    }
    handle, _ = fake_service(httpx.Response(200, json={"events": [{**event, "payload": {"a": 1}}]}))
    assert caller.call(handle, "events_of", "job_1")[0].payload == {"a": 1}


def test_a_log_is_read_as_text(caller):
    handle, _ = fake_service(httpx.Response(200, text="one\ntwo\n"))
    assert "".join(caller.call(handle, "logs", "job_1")) == "one\ntwo\n"


@pytest.mark.parametrize("follow", [False, True])
def test_timestamps_of_a_log_are_a_query_parameter(caller, follow):
    response = log_events("event: end\ndata: completed\n\n") if follow else httpx.Response(200)
    handle, requests = fake_service(response, response)
    list(caller.call(handle, "logs", "job_1", follow=follow, timestamps=True))
    list(caller.call(handle, "logs", "job_1", follow=follow))
    assert [request.url.query for request in requests] == [b"timestamps=true", b""]


def test_a_followed_log_resumes_after_a_broken_connection(caller):
    handle, requests = fake_service(
        log_events("retry: 1000\n\nid: 1\ndata: one\ndata:\n\nid: 2\ndata: tw"),
        refusal(503, "unavailable"),
        log_events(": hello\n\n"),
        log_events("id: 2\ndata: two\ndata:\n\nevent: end\ndata: completed\n\n"),
    )
    assert caller.call(handle, "logs", "job_1", follow=True) == ["one\n", "two\n"]
    assert [request.headers.get("last-event-id") for request in requests] == [None, "1", "1", "1"]
    assert requests[0].headers["accept"] == "text/event-stream"


def test_following_the_log_of_an_unknown_job_is_refused(caller):
    handle, _ = fake_service(refusal(404, "job_not_found"))
    with pytest.raises(ApiError, match="job_not_found"):
        caller.call(handle, "logs", "job_1", follow=True)


def test_a_deprecated_call_warns_the_program_that_uses_it(caller):
    headers = {
        "Deprecation": "@1767225600",
        "Sunset": "Fri, 01 Jan 2027 00:00:00 GMT",
        "Link": '<http://test/v1/docs#listAgents>; rel="deprecation"; type="text/html"',
    }
    handle, _ = fake_service(httpx.Response(200, json={"agents": []}, headers=headers))
    with pytest.warns(DeprecationWarning, match="removed on Fri, 01 Jan 2027") as caught:
        caller.call(handle, "agents")
    assert "see http://test/v1/docs#listAgents" in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("url", ["http://host:80", "http://host:80/", "http://host:80/v1/"])
def test_the_version_segment_may_be_omitted_from_the_url(url):
    handle, requests = fake_service(httpx.Response(200, json={"agents": []}))
    with Client(url, KEY, transport=httpx.MockTransport(handle)) as client:
        client.agents()
    assert requests[0].url == "http://host:80/v1/agents"


@pytest.mark.parametrize("url", ["", "host:80", "ftp://host", "http://", "http://host:x/v1"])
def test_an_invalid_base_url_is_refused_before_any_request(url):
    with pytest.raises(ClientError):
        Client(url, KEY)


def test_an_api_key_with_a_line_break_is_refused_before_any_request():
    with pytest.raises(ClientError, match="copied whole"):
        Client("http://test", "ajk_a\n")


def test_url_and_key_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("AGENTJOBS_URL", raising=False)
    monkeypatch.setenv("AGENTJOBS_API_KEY", KEY)
    with pytest.raises(ClientError, match="AGENTJOBS_URL"):
        Client.from_environment()
    monkeypatch.setenv("AGENTJOBS_URL", "http://test/v1")
    Client.from_environment().close()
    monkeypatch.delenv("AGENTJOBS_API_KEY")
    with pytest.raises(ClientError, match="AGENTJOBS_API_KEY"):
        Client.from_environment()


@pytest.mark.parametrize("base_url", ["https://jobs.example", "HTTPS://jobs.example", " https://x"])
def test_certificates_are_verified_however_the_address_is_written(base_url):
    assert connection.needs_certificates(connection.normalize_base_url(base_url))


def test_an_address_without_tls_needs_no_certificates():
    assert not connection.needs_certificates(connection.normalize_base_url("HTTP://127.0.0.1:8080"))
