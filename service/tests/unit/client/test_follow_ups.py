"""Follow-ups through both clients and the command."""

import json

import httpx
import pytest

from agentjobs.cli.jobs.create import follow_up_job
from agentjobs_client import Client
from service.tests.unit.client.test_calls import Caller, fake_service, receipt, refusal


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


def test_a_follow_up_contains_only_the_given_fields(client: Caller) -> None:
    handle, requests = fake_service(receipt(), receipt())
    assert client.call(handle, "follow_up", "job_0", "Now test it.").job_id == "job_1"
    client.call(handle, "follow_up", "job_0", "x", agent="b", timeout_seconds=9, max_cost_usd=0.5)
    assert [request.url.path for request in requests] == ["/v1/jobs/job_0/follow-ups"] * 2
    assert json.loads(requests[0].content) == {"prompt": "Now test it."}
    assert json.loads(requests[1].content) == {
        "prompt": "x",
        "agent": "b",
        "timeout_seconds": 9,
        "max_cost_usd": 0.5,
    }


def test_a_follow_up_whose_response_was_lost_is_retried_with_the_same_key(client: Caller) -> None:
    handle, requests = fake_service(
        httpx.ReadError("reset"), refusal(503, "unavailable"), receipt()
    )
    assert client.call(handle, "follow_up", "job_0", "x").job_id == "job_1"
    assert len({request.headers["idempotency-key"] for request in requests}) == 1


def test_the_command_prints_the_new_jobs_identifier(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handle, _ = fake_service(receipt())
    transport = httpx.MockTransport(handle)
    monkeypatch.setenv("AGENTJOBS_URL", "http://test")
    monkeypatch.setenv("AGENTJOBS_API_KEY", "ajk_x")
    monkeypatch.setattr(
        "agentjobs.cli.contexts.connection.open_client",
        lambda service: Client(service.url, service.api_key, transport=transport),
    )
    follow_up_job("job_0", "Now test it.")
    assert capsys.readouterr().out == "job_1\n"
