"""What each call sends, and arguments that are refused before anything is sent."""

import json
from datetime import UTC, date, datetime, timedelta, timezone

import httpx
import pytest

from agentjobs_client import ApiError, ClientError, NotSupported, UnexpectedAnswer
from service.tests.unit.client.test_calls import Caller, fake_service, receipt, refusal

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PULL = {"id": "pull_1", "repo": "a/b", "number": 1, "state": "open"}


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def caller(request):
    return Caller(request.param)


def given(name, *args, **kwargs):
    return name, args, kwargs


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (given("agent", "lint-fixer"), "GET /v1/agents/lint-fixer"),
        (given("repo", "acme/shop"), "GET /v1/repos/acme/shop"),
        (given("me"), "GET /v1/me"),
        (given("usage"), "GET /v1/usage"),
        (
            given("usage", since=date(2026, 1, 1), until=NOON, group_by="day"),
            "GET /v1/usage?from=2026-01-01&to=2026-01-31T12%3A00%3A00Z&group_by=day",
        ),
        (given("job", "job_1"), "GET /v1/jobs/job_1"),
        (
            given("job", "job_1", 99.9, wait_for="final"),
            "GET /v1/jobs/job_1?wait_seconds=60&wait_for=final",
        ),
        (
            given("jobs", status=("queued", "running"), ticket_id="S-1", follows="job_0"),
            "GET /v1/jobs?status=queued%2Crunning&ticket_id=S-1&follows=job_0&limit=100",
        ),
        (
            given("jobs", labels={"team/a": "x y"}, created_after=NOON, created_before=None),
            "GET /v1/jobs?created_after=2026-01-31T12%3A00%3A00Z&label.team%2Fa=x+y&limit=100",
        ),
        (given("logs", "job_1", tail_bytes=99), "GET /v1/jobs/job_1/logs?tail_bytes=99"),
        (given("diff", "job_1"), "GET /v1/jobs/job_1/diff"),
        (given("diff_files", "job_1"), "GET /v1/jobs/job_1/diff"),
        (
            given("steps", "job_1", kind="command", after=40),
            "GET /v1/jobs/job_1/steps?kind=command&after=40&limit=200",
        ),
        (given("artifacts", "job_1"), "GET /v1/jobs/job_1/artifacts"),
        (given("artifact", "job_1", "a b.txt"), "GET /v1/jobs/job_1/artifacts/a%20b.txt"),
        (given("events_of", "job_1"), "GET /v1/jobs/job_1/events"),
        (given("event_pages"), "GET /v1/events?limit=1000"),
        (
            given("pulls", repo="a/b", state="open", job_id="job_1"),
            "GET /v1/pulls?repo=a%2Fb&state=open&job_id=job_1&limit=100",
        ),
        (given("pull", "pull_1"), "GET /v1/pulls/pull_1"),
        (given("merge_pull", "pull_1"), "POST /v1/pulls/pull_1/merge {}"),
        (
            given("merge_pull", "pull_1", method="squash", head_commit="4f9c"),
            'POST /v1/pulls/pull_1/merge {"method":"squash","head_commit":"4f9c"}',
        ),
        (given("close_pull", "pull_1"), "POST /v1/pulls/pull_1/close"),
        (given("retry", "job_1"), "POST /v1/jobs/job_1/retry {}"),
        (
            given("follow_up", "job_1", "x", labels={"a": "b"}, agent=None),
            'POST /v1/jobs/job_1/follow-ups {"prompt":"x","labels":{"a":"b"}}',
        ),
        # Dots alone would change the path.
        (given("job", ".."), "GET /v1/jobs/%2E%2E"),
        (given("repo", "."), "GET /v1/repos/%2E"),
        (given("repo", "a/../b"), "GET /v1/repos/a/%2E%2E/b"),
        (given("job", "\udc80"), "GET /v1/jobs/%3F"),
    ],
)
def test_a_call_sends(caller, call, sent):
    name, args, kwargs = call
    handle, requests = fake_service(refusal(403, "insufficient_scope"))
    with pytest.raises(ApiError):
        caller.call(handle, name, *args, **kwargs)
    request = requests[0]
    assert f"{request.method} {request.url.raw_path.decode()} {request.content.decode()}" in (
        sent,
        f"{sent} ",
    )


@pytest.mark.parametrize(("name", "accept"), [("diff", "text/x-diff"), ("diff_files", "/json")])
def test_a_diff_is_requested_in_its_form(caller, name, accept):
    handle, requests = fake_service(refusal(404, "diff_not_available"))
    with pytest.raises(ApiError):
        caller.call(handle, name, "job_1")
    assert requests[0].headers["accept"].endswith(accept)


def test_labels_and_warnings_of_a_new_job(caller):
    document = {"job_id": "job_1", "status": "queued", "estimated_start_ms": 0, "warnings": ["w"]}
    handle, requests = fake_service(httpx.Response(202, json=document))
    created = caller.call(handle, "create_job", "a/b", "c", labels={"team": "web"})
    assert created.warnings == ("w",)
    assert json.loads(requests[0].content)["labels"] == {"team": "web"}


def test_a_retry_is_sent_with_an_idempotency_key(caller):
    handle, requests = fake_service(httpx.ReadError("reset"), receipt())
    assert caller.call(handle, "retry", "job_0").job_id == "job_1"
    assert len({request.headers["idempotency-key"] for request in requests}) == 1


@pytest.mark.parametrize(("name", "state"), [("merge_pull", "merged"), ("close_pull", "closed")])
def test_a_pull_request_whose_response_was_lost_is_looked_at_again(caller, name, state):
    handle, _ = fake_service(
        httpx.ReadError("reset"),
        refusal(409, "pull_not_open"),
        httpx.Response(200, json={**PULL, "state": state}),
    )
    assert caller.call(handle, name, "pull_1").state == state
    handle, _ = fake_service(
        httpx.ReadError("reset"), refusal(409, "pull_not_open"), httpx.Response(200, json=PULL)
    )
    with pytest.raises(ApiError, match="pull_not_open"):
        caller.call(handle, name, "pull_1")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (given("job", ""), "is empty"),
        (given("artifact", "job_1", ""), "is empty"),
        (given("repo", "acme/"), "is empty"),
        (given("jobs", created_after=datetime(2026, 1, 1)), "no time zone"),  # noqa: DTZ001
        (given("create_job", "a", "b", idempotency_key="é"), "ASCII"),
        (given("create_job", "\udc80", "b"), "not valid"),
        (given("jobs", repo="\udc80"), "not valid"),
    ],
)
def test_an_invalid_argument_is_refused_before_any_request(caller, call, message):
    name, args, kwargs = call
    handle, requests = fake_service()
    with pytest.raises(ClientError, match=message):
        caller.call(handle, name, *args, **kwargs)
    assert requests == []


@pytest.mark.parametrize(
    "call",
    [
        given("create_job", "a", "b", prompt="x"),
        given("jobs", state="queued"),
        given("follow_up", "a", "b", ticket_id="x"),
        given("pulls", status="open"),
        given("dependencies", "a", scope="x"),
    ],
)
def test_an_unknown_argument_is_a_type_error_as_everywhere(caller, call):
    name, args, kwargs = call
    handle, requests = fake_service()
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        caller.call(handle, name, *args, **kwargs)
    assert requests == []


def test_times_in_other_zones_are_sent_in_utc(caller):
    zone = timezone(timedelta(hours=2))
    handle, requests = fake_service(httpx.Response(200, json={"jobs": [], "next_cursor": None}))
    caller.call(handle, "jobs", created_before=datetime(2026, 1, 31, 14, tzinfo=zone))
    assert requests[0].url.params["created_before"] == "2026-01-31T12:00:00Z"


def test_a_listing_that_repeats_its_cursor_ends_with_an_error(caller):
    page = {"jobs": [], "next_cursor": "c1"}
    handle, _ = fake_service(*[httpx.Response(200, json=page) for _ in range(3)])
    with pytest.raises(UnexpectedAnswer, match="same page"):
        caller.call(handle, "jobs")


def test_a_filter_that_an_older_service_ignores_is_an_error(caller):
    ignored = "`label.team` was ignored: there is no such query parameter."
    page = {"jobs": [], "next_cursor": None, "warnings": ["Something else.", ignored]}
    handle, _ = fake_service(*[httpx.Response(200, json=page) for _ in range(2)])
    with pytest.raises(NotSupported, match="older than this client"):
        caller.call(handle, "jobs", labels={"team": "web"})
    assert caller.call(handle, "jobs", labels={"other": "web"}) == []


@pytest.mark.parametrize("document", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": [3]}, []])
def test_a_listing_of_the_wrong_shape_is_reported(caller, document):
    handle, _ = fake_service(httpx.Response(200, json=document))
    with pytest.raises(UnexpectedAnswer, match="unexpected document"):
        caller.call(handle, "jobs")
