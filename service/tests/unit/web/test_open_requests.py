"""How many log streams and long polls one API key may keep open."""

import pytest

from agentjobs.web.api.rate_limit import OpenRequests
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.service import LiveCall, Service, refusal
from tests.support.stores import until

MAX_STREAMS = 2
EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(data_dir=str(tmp_path), streams_per_key=MAX_STREAMS)


async def open_stream(service: Service, job: str) -> LiveCall:
    call = service.live(f"/v1/jobs/{job}/logs", **EVENTS)
    assert (await call.start())["status"] == 200
    return call


async def test_streams_and_long_polls_above_the_limit_are_refused(service: Service) -> None:
    job = await service.create_job()
    stream = await open_stream(service, job)
    poll = service.live(f"/v1/jobs/{job}?wait_seconds=60")
    await service.wait_for_subscriber(f"job:{job}")
    await until(lambda: service.context.open_requests._open.total() == MAX_STREAMS)

    for path, headers in ((f"/v1/jobs/{job}/logs", EVENTS), (f"/v1/jobs/{job}?wait_seconds=1", {})):
        response = await service.get(path, headers=headers)
        assert refusal(response) == (429, "rate_limited")
        assert int(response.headers["retry-after"]) > 0
        assert "2 log streams and long polls" in response.json()["error"]["message"]

    # Other requests of the key and the streams of another key are not affected.
    assert (await service.get(f"/v1/jobs/{job}")).status_code == 200
    response = await service.get(f"/v1/jobs/{job}?wait_seconds=1", headers=await service.key())
    assert response.status_code == 200
    for call in (stream, poll):
        call.leave()
        await call.wait()
    assert (await service.get(f"/v1/jobs/{job}?wait_seconds=1")).status_code == 200
    assert not service.context.open_requests._open


def test_a_failed_request_is_not_counted_any_more() -> None:
    requests = OpenRequests(1)
    with pytest.raises(ValueError, match="gone"), requests.hold("key_1"):
        raise ValueError("gone")
    with requests.hold("key_1"):
        pass
