"""What the gateway makes of a request before it is sent."""

from typing import Any

import msgspec
import pytest

from agentjobs.gateway.blocks import MOST_BLOCKS
from agentjobs.gateway.calls import DEFAULT_MAXIMUM, MOST_BRACKETS, Call, model_of, parse, prepare
from agentjobs.gateway.endpoints import CHAT, MESSAGES, RESPONSES, Endpoint
from agentjobs.gateway.estimate import TOKENS_PER_PICTURE
from agentjobs.gateway.prices import Price
from agentjobs.gateway.refusals import Refused
from agentjobs.gateway.upstream import Upstream

PRICE = Price(input=1_000, output=10_000, cached_input=100, cache_write=1_250, max_output_tokens=99)


def upstream(url: str = "https://models.example", **options: Any) -> Upstream:
    return Upstream(api="openai", url=url, key="k", **options)


def prepared(
    endpoint: Endpoint, *, limited: bool = True, price: Price | None = PRICE, **body: Any
) -> Call:
    name = endpoint.maximum_name(upstream())
    return prepare(endpoint, body, "m", price, name, limited=limited)


def sent(call: Call) -> Any:
    return msgspec.json.decode(call.body)


def refusal(endpoint: Endpoint = CHAT, **body: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        prepared(endpoint, **body)
    return refused.value


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b'"text"', b"\xff", b"[" * 100_000, b'{"a":"\\ud800"}']
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        parse(raw)
    assert refused.value.status == 400


def test_a_thicket_of_brackets_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Refused) as refused:
        parse(b'{"a":[' + b"[]," * MOST_BRACKETS + b"[]]}")
    assert refused.value.status == 413


@pytest.mark.parametrize("part", [1, {"type": "text"}, [[]], {"content": [1, 2]}])
def test_a_conversation_of_too_many_parts_is_refused(part: Any) -> None:
    assert refusal(messages=[part] * (MOST_BLOCKS + 1)).status == 413
    assert refusal(messages=[{"role": "user", "content": [part] * MOST_BLOCKS}] * 2).status == 413


def test_the_last_of_two_equal_names_is_both_judged_and_sent() -> None:
    call = prepared(CHAT, **parse(b'{"max_tokens":1,"max_tokens":7}'))

    assert call.output_tokens == 7
    assert sent(call) == {"max_tokens": 7}


@pytest.mark.parametrize("model", [None, 7, "", ["m"]])
def test_a_request_names_its_model(model: Any) -> None:
    with pytest.raises(Refused, match="name a model"):
        model_of({"model": model}, upstream())


def test_only_listed_models_may_be_used() -> None:
    some = upstream(models=("gpt-5*", "own/[small]"))

    assert model_of({"model": "gpt-5-mini"}, some) == "gpt-5-mini"
    assert model_of({"model": "own/[small]"}, some) == "own/[small]"
    with pytest.raises(Refused) as refused:
        model_of({"model": "gpt-6"}, some)
    assert refused.value.status == 403
    assert "gpt-5*" in refused.value.message


@pytest.mark.parametrize(
    ("endpoint", "url", "name"),
    [
        (CHAT, "https://api.openai.com", "max_completion_tokens"),
        (CHAT, "http://localhost:8000", "max_tokens"),
        (RESPONSES, "https://api.openai.com", "max_output_tokens"),
        (MESSAGES, "https://api.anthropic.com", "max_tokens"),
    ],
)
def test_while_a_budget_applies_a_maximum_is_added_by_the_name_the_provider_knows(
    endpoint: Endpoint, url: str, name: str
) -> None:
    added = prepare(endpoint, {}, "m", PRICE, endpoint.maximum_name(upstream(url)), limited=True)

    assert sent(added) == {name: 99}
    assert added.output_tokens == 99


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize(("price", "expected"), [(PRICE, 99), (None, DEFAULT_MAXIMUM)])
def test_without_a_budget_no_maximum_is_added_and_the_default_is_only_counted(
    endpoint: Endpoint, price: Price | None, expected: int
) -> None:
    call = prepared(endpoint, limited=False, price=price, input="hi")

    assert sent(call) == {"input": "hi"}
    assert call.output_tokens == expected


@pytest.mark.parametrize("limited", [True, False])
def test_a_maximum_that_the_agent_named_is_left_as_it_is(*, limited: bool) -> None:
    assert sent(prepared(MESSAGES, limited=limited, max_tokens=7)) == {"max_tokens": 7}


def test_the_largest_maximum_counts_for_every_choice() -> None:
    call = prepared(CHAT, max_tokens=10, max_completion_tokens=20, n=3)

    assert call.output_tokens == 60


@pytest.mark.parametrize("value", [-1, 1.5, "9", True, 10**12, [], 10**30])
def test_a_maximum_that_is_no_sensible_number_is_refused(value: Any) -> None:
    assert refusal(max_tokens=value).status == 400
    assert refusal(n=value).status == 400


def test_background_work_is_refused() -> None:
    assert "background" in refusal(RESPONSES, background=True).message


def test_the_usage_is_asked_for_on_a_streamed_chat() -> None:
    call = prepared(CHAT, stream=True, stream_options={"include_obfuscation": False})

    assert call.usage_is_ours
    assert sent(call)["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_a_client_that_asks_for_the_usage_itself_is_left_alone() -> None:
    assert not prepared(CHAT, stream=True, stream_options={"include_usage": True}).usage_is_ours
    assert not prepared(CHAT).usage_is_ours
    assert not prepared(RESPONSES, stream=True).usage_is_ours


def test_text_counts_a_token_for_three_bytes_at_most() -> None:
    small = prepared(CHAT, messages=[{"role": "user", "content": ""}])
    large = prepared(CHAT, messages=[{"role": "user", "content": "ä" * 3_000}])

    assert large.input_tokens - small.input_tokens == 2_000


PICTURES: list[dict[str, Any]] = [
    {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 90_000},
    },
    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}},
    {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 90_000},
]


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda block: {"messages": [{"role": "user", "content": [block]}]},
        lambda block: {"input": [{"type": "message", "content": [block]}]},
        lambda block: {"input": [{"type": "function_call_output", "output": [block]}]},
        lambda block: {
            "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [block]}]}]
        },
    ],
)
def test_a_picture_costs_the_same_whatever_its_bytes(picture: Any, wrap: Any) -> None:
    tokens = prepared(MESSAGES, **wrap(picture)).input_tokens

    assert TOKENS_PER_PICTURE < tokens < TOKENS_PER_PICTURE + 200


def test_text_dressed_as_a_picture_in_a_tools_input_is_text() -> None:
    disguise = {"type": "tool_use", "name": "t", "input": PICTURES[0]}
    call = prepared(MESSAGES, messages=[{"role": "assistant", "content": [disguise]}])

    assert call.input_tokens > 30_000


def test_a_file_costs_its_bytes() -> None:
    pdf = {"type": "document", "source": {"type": "base64", "data": "A" * 90_000}}
    call = prepared(MESSAGES, messages=[{"role": "user", "content": [pdf]}])

    assert call.input_tokens > 32_000


HIDDEN: list[dict[str, Any]] = [
    {"previous_response_id": "resp_1"},
    {"conversation": "conv_1"},
    {"service_tier": "priority"},
    {"speed": "fast"},
    {"mcp_servers": [{"url": "https://mcp.example"}]},
    {"tools": [{"type": "web_search_20260101", "name": "web_search"}]},
    {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
    {"input": [{"type": "additional_tools", "tools": [{"type": "code_interpreter"}]}]},
    {"input": [{"type": "item_reference", "id": "msg_1"}]},
    {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]},
    {
        "messages": [
            {"content": [{"type": "document", "source": {"type": "url", "url": "https://x"}}]}
        ]
    },
]


@pytest.mark.parametrize("body", HIDDEN)
def test_what_costs_an_unknown_amount_is_refused_while_a_budget_applies(body: Any) -> None:
    refused = refusal(RESPONSES, **body)

    assert (refused.status, refused.code) == (400, "cost_unknown")
    assert prepared(RESPONSES, limited=False, **body).input_tokens > 0


def test_ordinary_tools_are_no_hidden_cost() -> None:
    tools = [
        {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
        {"type": "bash_20250124", "name": "bash"},
        {"name": "mcp__files__read", "input_schema": {"type": "object"}},
        {"type": "custom", "name": "apply_patch"},
        {"type": "shell", "environment": {"type": "local"}},
        "odd",
    ]

    assert prepared(CHAT, tools=tools).cost(PRICE) > 0


def test_the_reservation_covers_the_dearest_way_to_count_the_input() -> None:
    plain = prepared(MESSAGES, max_tokens=10, messages=[])
    an_hour = prepared(
        MESSAGES, max_tokens=10, messages=[], cache_control={"type": "ephemeral", "ttl": "1h"}
    )

    assert plain.cost(PRICE) == plain.input_tokens * 1_250 + 10 * 10_000
    assert an_hour.cost(PRICE) == an_hour.input_tokens * 2_000 + 10 * 10_000
    assert plain.cost(None) == 0
