"""The spans of model calls: OpenTelemetry's names for GenAI, and nothing that was said."""

from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_runtime.tracing.spans import continue_trace
from tests.support.gateway import GatewayHarness, chat, gateway_harness
from tests.support.model_messages import ModelReply, Tokens
from tests.support.recorded_spans import recorded_spans

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SECRET = "what was said"


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()


async def spans_of(
    db: Database, reply: ModelReply, *bodies: object, stream: bool = False
) -> list[ReadableSpan]:
    with recorded_spans() as recorded, continue_trace("invoke_agent", PARENT):
        async with gateway_harness(db, [reply], job_usd=1) as harness:
            for body in bodies:
                await _send(harness, body, stream=stream)
        return [span for span in recorded.get_finished_spans() if span.name.startswith("chat")]


async def _send(harness: GatewayHarness, body: object, *, stream: bool) -> None:
    if not stream:
        await harness.ask(body=body)
        return
    headers = {"Authorization": f"Bearer {harness.gateway.token}"}
    url = f"{harness.url}/v1/chat/completions"
    async with harness.http.post(url, json=body, headers=headers) as response:
        await response.read()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_is_a_child_of_the_agent_with_its_tokens(db: Database, stream: bool) -> None:
    reply = ModelReply(text=SECRET, usage=Tokens(100, 50, cached=30, cache_write=20))
    (span,) = await spans_of(db, reply, chat(SECRET, stream=stream), stream=stream)
    assert span.name == "chat priced"
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    attributes = dict(span.attributes or {})
    assert attributes.pop("agentjobs.cost_usd") == pytest.approx(0.000578)
    assert isinstance(attributes.pop("server.port"), int)
    assert attributes == {
        gen_ai.GEN_AI_OPERATION_NAME: gen_ai.GenAiOperationNameValues.CHAT.value,
        gen_ai.GEN_AI_PROVIDER_NAME: gen_ai.GenAiProviderNameValues.OPENAI.value,
        gen_ai.GEN_AI_REQUEST_MODEL: "priced",
        gen_ai.GEN_AI_USAGE_INPUT_TOKENS: 100,
        gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: 50,
        gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 30,
        gen_ai.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: 20,
        "server.address": "127.0.0.1",
    }
    assert SECRET not in span.to_json()


async def test_a_provider_that_fails_is_an_error_with_its_status(db: Database) -> None:
    (span,) = await spans_of(db, ModelReply(status=429, error=SECRET), chat(SECRET))
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == "429"
    assert SECRET not in span.to_json()


async def test_a_call_over_the_budget_is_an_error_with_its_code(db: Database) -> None:
    (span,) = await spans_of(db, ModelReply(), chat(SECRET, max_tokens=9_999_999))
    assert (span.attributes or {})["error.type"] == "budget_exceeded"


async def test_an_agent_cannot_put_control_characters_into_a_trace(db: Database) -> None:
    body = chat(SECRET, model="plain-\x1b[31m\u202e\ud7ff" + "x" * 240)
    (span,) = await spans_of(db, ModelReply(usage=Tokens(1, 1)), body)
    assert span.name.isprintable()
    assert len(span.name) <= 300
