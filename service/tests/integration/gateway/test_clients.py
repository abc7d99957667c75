"""The official clients through the gateway: what they get, what is charged, what they never see."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.gateway import REAL_KEY, GatewayHarness, gateway_harness
from tests.support.model_messages import ModelReply, Tokens, ToolCall

# Importing them takes seconds, and every test process collects this module: tests import them.
if TYPE_CHECKING:
    import anthropic
    import openai

LS = ToolCall("bash", {"command": "ls -la"})
REPLY = ModelReply(text="Here you are: ä 😀.", tool_calls=[LS], usage=Tokens(100, 20, 30, 10))
# 60 fresh, 30 cached, 10 written to the cache, 20 out.
COST = 60 * 1_000 + 30 * 100 + 10 * 1_250 + 20 * 10_000
HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()


def openai_client(harness: GatewayHarness, **options: Any) -> "openai.AsyncOpenAI":
    import openai

    return openai.AsyncOpenAI(
        base_url=f"{harness.url}/v1", api_key=harness.gateway.token, max_retries=0, **options
    )


def anthropic_client(harness: GatewayHarness, **options: Any) -> "anthropic.AsyncAnthropic":
    import anthropic

    return anthropic.AsyncAnthropic(
        base_url=harness.url, api_key=harness.gateway.token, max_retries=0, **options
    )


async def assert_charged(harness: GatewayHarness) -> None:
    totals = await harness.settled()
    assert totals.as_usage() == {
        "input_tokens": 100,
        "output_tokens": 20,
        "cost_usd": COST / 1e9,
        "requests": 1,
    }
    assert await harness.spent_today() == COST


async def test_a_chat_completion_is_forwarded_and_charged(database: Database) -> None:
    async with (
        gateway_harness(database, [REPLY], job_usd=1) as harness,
        openai_client(harness) as client,
    ):
        answer = await client.chat.completions.create(model="priced", messages=HELLO)

        assert answer.choices[0].message.content == REPLY.text
        assert answer.usage is not None
        await assert_charged(harness)


async def test_a_chat_completion_streams_and_is_charged_by_its_hidden_usage(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], job_usd=1) as harness,
        openai_client(harness) as client,
    ):
        stream = await client.chat.completions.create(model="priced", messages=HELLO, stream=True)
        chunks = [chunk async for chunk in stream]

        reply = "".join(c.choices[0].delta.content or "" for c in chunks)
        assert reply == REPLY.text
        assert all(chunk.choices and chunk.usage is None for chunk in chunks)
        await assert_charged(harness)


async def test_a_client_that_asked_for_the_usage_gets_it(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], job_usd=1) as harness,
        openai_client(harness) as client,
    ):
        stream = await client.chat.completions.create(
            model="priced", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        last = [chunk async for chunk in stream][-1]

        assert last.usage is not None
        assert last.usage.total_tokens == 120
        await assert_charged(harness)


async def test_a_response_request_is_forwarded_and_charged(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], job_usd=1) as harness,
        openai_client(harness) as client,
    ):
        answer = await client.responses.create(model="priced", input="hello")

        assert answer.output_text == REPLY.text
        await assert_charged(harness)


async def test_a_response_streams_and_is_charged(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], job_usd=1) as harness,
        openai_client(harness) as client,
    ):
        async with client.responses.stream(model="priced", input="hello") as stream:
            answer = await stream.get_final_response()

        assert answer.output_text == REPLY.text
        await assert_charged(harness)


async def test_a_message_is_forwarded_and_charged(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], api="anthropic", job_usd=1) as harness,
        anthropic_client(harness) as client,
    ):
        answer = await client.messages.create(model="priced", max_tokens=50, messages=HELLO)

        assert answer.content[1].type == "tool_use"
        await assert_charged(harness)


async def test_a_message_streams_and_is_charged(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], api="anthropic", job_usd=1) as harness,
        anthropic_client(harness) as client,
    ):
        async with client.messages.stream(model="priced", max_tokens=50, messages=HELLO) as stream:
            answer = await stream.get_final_message()

        assert [block.type for block in answer.content] == ["text", "tool_use"]
        await assert_charged(harness)


async def test_a_beta_message_keeps_its_query_and_its_headers(db: Database) -> None:
    async with (
        gateway_harness(db, [REPLY], api="anthropic") as harness,
        anthropic_client(harness) as client,
    ):
        await client.beta.messages.create(
            model="priced",
            max_tokens=50,
            messages=HELLO,
            betas=["interleaved-thinking-2025-05-14"],
            extra_query={"beta": "true"},
        )

        request = harness.provider.requests[0]
        assert request.query == "beta=true"
        assert request.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
        assert request.headers["anthropic-version"]


async def test_blocking_clients_work_from_threads(db: Database) -> None:
    import anthropic
    import openai

    def ask(harness: GatewayHarness) -> list[str | None]:
        with openai.OpenAI(base_url=f"{harness.url}/v1", api_key=harness.gateway.token) as client:
            stream = client.chat.completions.create(model="priced", messages=HELLO, stream=True)
            pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
        with (
            anthropic.Anthropic(
                base_url=harness.url, auth_token=harness.gateway.token, api_key=None
            ) as other,
            pytest.raises(anthropic.NotFoundError),
        ):
            other.messages.create(model="priced", max_tokens=1, messages=HELLO)
        return ["".join(pieces)]

    async with gateway_harness(db, [REPLY]) as harness:
        assert await asyncio.to_thread(ask, harness) == [REPLY.text]


async def test_the_provider_sees_the_real_key_and_the_agent_never_does(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness, openai_client(harness) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="priced",
            messages=HELLO,
            extra_headers={"OpenAI-Organization": "other", "X-Odd": "1"},
        )

        request = harness.provider.requests[0].headers
        assert request["authorization"] == f"Bearer {REAL_KEY}"
        assert request["accept-encoding"] == "identity"
        assert not {"openai-organization", "x-odd"} & request.keys()
        assert harness.gateway.token not in str(request)
        assert REAL_KEY not in str(raw.headers) + raw.text
        assert "openai-organization" not in raw.headers
        assert raw.headers["x-request-id"] == "req_1"


async def test_clients_retry_what_the_provider_asks_them_to(db: Database) -> None:
    busy = ModelReply(status=429, error="slow down", headers={"retry-after-ms": "1"})
    broken = ModelReply(status=500, error="oops", headers={"retry-after-ms": "1"})
    async with gateway_harness(db, [busy, broken, REPLY], job_usd=1) as harness:
        async with openai_client(harness).with_options(max_retries=2) as client:
            answer = await client.chat.completions.create(model="priced", messages=HELLO)

        assert answer.choices[0].message.content == REPLY.text
        totals = await harness.settled()
        assert totals.requests == 3
        assert totals.cost_nanousd == COST


async def test_clients_do_not_retry_an_exceeded_budget(db: Database) -> None:
    import openai

    async with gateway_harness(db, [REPLY], job_usd=0.0001) as harness:
        async with openai_client(harness).with_options(max_retries=5) as client:
            with pytest.raises(openai.APIStatusError) as refused:
                await client.chat.completions.create(model="priced", messages=HELLO)

        assert refused.value.status_code == 402
        assert refused.value.code == "budget_exceeded"
        assert harness.provider.requests == []
        assert harness.exceeded == [refused.value.body["message"]]  # type: ignore[index]


async def test_an_exceeded_budget_has_the_error_format_of_the_api(db: Database) -> None:
    import anthropic

    async with gateway_harness(db, [REPLY], api="anthropic", day_usd=0.0001) as harness:
        async with anthropic_client(harness).with_options(max_retries=5) as client:
            with pytest.raises(anthropic.APIStatusError) as refused:
                await client.messages.create(model="priced", max_tokens=50, messages=HELLO)

        assert refused.value.status_code == 402
        assert refused.value.type == "billing_error"
        assert refused.value.error_code == "budget_exceeded"
        assert "today" in harness.exceeded[0]


async def test_parallel_requests_never_exceed_the_budget_together(database: Database) -> None:
    import openai

    answers = [ModelReply(text="x", usage=Tokens(40, 50), always=True)]
    # Reserved: about 0.0011 each. Used: 0.00054. The budget holds nine of those, and a rest.
    async with (
        gateway_harness(database, answers, job_usd=0.005, day_usd=1) as harness,
        openai_client(harness) as client,
    ):
        tasks = [client.chat.completions.create(model="priced", messages=HELLO) for _ in range(20)]
        results = await asyncio.gather(*tasks, return_exceptions=True)

        refused = [one for one in results if isinstance(one, openai.APIStatusError)]
        answered = [one for one in results if not isinstance(one, BaseException)]
        totals = await harness.settled()
        assert len(refused) + len(answered) == 20
        assert refused
        assert totals.cost_nanousd == len(answered) * 540_000 <= 5_000_000
        # What does not fit beside others under way waits for them instead of being refused.
        assert len(answered) >= 7
        assert max(totals.cost_nanousd for totals in harness.totals) <= 5_000_000
