"""What a provider bills never exceeds a budget, even if every byte of a prompt is a token."""

import asyncio
from typing import Any

import aiohttp
import pytest

from agentjobs.store.database import Database
from tests.support.gateway import GatewayHarness, chat, gateway_harness
from tests.support.model_messages import ModelReply
from tests.support.stores import until

LIMIT_USD = 1.0
EXPENSIVE_TEXT = "x" * 900_000
"""Costs $0.90 as input of the model `plain-1` at a token per byte."""


def billed_usd(harness: GatewayHarness) -> float:
    return sum(tokens.input + 10 * tokens.output for tokens in harness.provider.billed) / 1e6


def expensive(**options: Any) -> dict[str, Any]:
    return chat(EXPENSIVE_TEXT, model="plain-1", max_tokens=10, **options)


@pytest.mark.parametrize("limit", ["job_usd", "day_usd"])
async def test_parallel_prompts_of_many_tokens_per_byte_stay_within_the_budget(
    database: Database, limit: str
) -> None:
    reply = ModelReply(text="ok", bytes_per_token=1, always=True)
    limits: dict[str, Any] = {limit: LIMIT_USD}
    async with gateway_harness(database, [reply], **limits) as harness:
        responses = await asyncio.gather(*(harness.ask(body=expensive()) for _ in range(3)))

        assert sorted(status for status, _ in responses) == [200, 402, 402]
        assert billed_usd(harness) <= LIMIT_USD
        assert (await harness.settled()).cost_nanousd == round(billed_usd(harness) * 1e9)


async def test_requests_in_flight_when_the_job_ends_stay_charged_at_their_maximum(
    database: Database,
) -> None:
    silent = ModelReply(text="a story", bytes_per_token=1, hang_after=1, always=True)
    async with gateway_harness(database, [silent], job_usd=3 * LIMIT_USD) as harness:
        body = expensive(stream=True)
        asking = [asyncio.create_task(harness.ask(body=body)) for _ in range(3)]
        await until(lambda: len(harness.provider.billed) == 3)

        totals = await harness.settled()

        for result in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(result, aiohttp.ClientError)
        assert 2.7 <= billed_usd(harness) <= totals.cost_nanousd / 1e9 <= 3 * LIMIT_USD
        assert await harness.spent_today() == totals.cost_nanousd
        assert (totals.requests, totals.output_tokens) == (3, 30)


async def test_a_small_budget_pays_for_many_requests_because_reservations_are_corrected(
    database: Database,
) -> None:
    reply = ModelReply(text="ok", always=True)
    async with gateway_harness(database, [reply], job_usd=0.1) as harness:
        for _ in range(5):
            # Each reserves about $0.05 and costs a fifth of that.
            assert (await harness.ask(body=chat("x" * 40_000, max_tokens=1)))[0] == 200

        assert harness.exceeded == []


async def test_a_growing_conversation_reserves_what_the_provider_counted_before(
    database: Database,
) -> None:
    reply = ModelReply(text="ok", always=True)
    async with gateway_harness(database, [reply], job_usd=0.1) as harness:
        messages = [{"role": "user", "content": "x" * 60_000}]
        for number in range(4):
            # At a token per byte, the fourth would not fit: each costs $0.015.
            assert (await harness.ask(body=chat(messages=messages, max_tokens=1)))[0] == 200
            messages.append({"role": "user", "content": f"and {number}"})

        assert harness.exceeded == []
