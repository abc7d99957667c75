"""The rate limit of an API key."""

import asyncio
from pathlib import Path

import httpx
import pytest

from agentjobs.web.api import rate_limit
from agentjobs.web.api.rate_limit import RateLimiter
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.service import Service, refusal


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def is_limited(limiter: RateLimiter, key_id: str = "a") -> bool:
    try:
        limiter.take(key_id)
    except Problem as problem:
        return problem.code == "rate_limited"
    return False


def test_a_burst_is_allowed_then_the_steady_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(2, 3, clock)
    assert [is_limited(limiter) for _ in range(4)] == [False, False, False, True]
    clock.now += 0.5
    assert [is_limited(limiter) for _ in range(2)] == [False, True]
    clock.now += 3_600
    assert [is_limited(limiter) for _ in range(4)] == [False, False, False, True]


def test_each_key_has_its_own_bucket() -> None:
    limiter = RateLimiter(1, 1, Clock())
    assert [is_limited(limiter, key) for key in "aabb"] == [False, True, False, True]


def test_a_rate_of_zero_turns_it_off() -> None:
    limiter = RateLimiter(0, 1, Clock())
    assert not any(is_limited(limiter) for _ in range(100))


def test_each_request_is_told_what_is_left_and_when_all_of_it_is_back() -> None:
    clock = Clock()
    limiter = RateLimiter(2, 5, clock)
    assert [limiter.take("a") for _ in range(3)] == [(5, 4, 1), (5, 3, 1), (5, 2, 2)]
    clock.now += 0.25
    assert limiter.take("a") == (5, 1, 2)
    assert RateLimiter(0, 5, clock).take("a") is None


async def test_refusals_are_delayed_and_delay_no_other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "_REFUSAL_SECONDS", 3_600)
    monkeypatch.setattr(rate_limit, "_MAX_DELAYED_REFUSALS", 1)
    limiter = RateLimiter(1, 1, Clock())
    await limiter.admit("a")
    delayed = asyncio.create_task(limiter.admit("a"))
    await asyncio.sleep(0)
    await limiter.admit("b")
    # Their number is limited, and those of disconnected clients do not count.
    with pytest.raises(Problem):
        await limiter.admit("a")
    delayed.cancel()
    await asyncio.wait([delayed])
    assert limiter._delayed_refusals == 0


def limits(response: httpx.Response) -> list[str | None]:
    names = ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset")
    assert all(len(response.headers.get_list(name)) <= 1 for name in names)
    return [response.headers.get(name) for name in names]


async def test_every_response_to_a_valid_key_has_the_rate_limit_once(service: Service) -> None:
    read_only = await service.key(scope="read")
    job = await service.create_job()
    responses = [
        await service.get("/v1/agents"),
        await service.http.head("/v1/agents"),
        await service.get(f"/v1/jobs/{job}/logs"),
        await service.get("/v1/jobs/none"),
        await service.get("/v1/jobs?limit=0"),
        await service.post("/v1/jobs", json={}),
        await service.post("/v1/jobs", content="{"),
        await service.post("/v1/jobs", json={}, headers=read_only),
        await service.post("/v1/jobs", json={}, headers={"Content-Encoding": "gzip"}),
    ]
    for response in responses:
        limit, remaining, reset = limits(response)
        assert limit == "500", response.request.url
        assert 480 < int(remaining or "") < 500
        assert reset == "1"


async def test_responses_without_a_valid_key_have_no_rate_limit(service: Service) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    assert limits(await service.get("/v1/agents", headers=wrong)) == [None] * 3
    assert limits(await service.get("/v1/none")) == [None] * 3


class TestDisabled:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(data_dir=str(tmp_path), rate_limit_per_second=0)

    async def test_no_response_has_a_rate_limit(self, service: Service) -> None:
        assert limits(await service.get("/v1/agents")) == [None] * 3
        assert limits(await service.get("/v1/jobs/none")) == [None] * 3


class TestOverHttp:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(data_dir=str(tmp_path), rate_limit_per_second=0.001, rate_limit_burst=2)

    async def test_the_response_says_when_to_retry(self, service: Service) -> None:
        responses = [await service.get(path) for path in ("/v1/agents", "/v1/repos", "/v1/jobs")]
        assert [response.status_code for response in responses[:2]] == [200, 200]
        assert refusal(responses[2]) == (429, "rate_limited")
        assert [limits(response)[1] for response in responses] == ["1", "0", "0"]
        headers = responses[2].headers
        assert headers["ratelimit-limit"] == "2"
        assert headers["ratelimit-remaining"] == "0"
        assert headers["ratelimit-reset"] == headers["retry-after"]
        assert 900 < int(headers["retry-after"]) <= 1_000
        other = await service.get("/v1/jobs", headers=await service.key())
        assert other.status_code == 200
