"""What the gateway makes of a request before it is sent."""

import sys
from typing import Any

import msgspec
import pytest

from agentjobs.gateway.calls import (
    DEFAULT_MAX_OUTPUT,
    MAX_BRACKETS,
    TOKENS_PER_IMAGE,
    Call,
    parse,
    prepare,
    read_model,
)
from agentjobs.gateway.content_blocks import MAX_BLOCKS
from agentjobs.gateway.endpoints import CHAT, MESSAGES, RESPONSES, Endpoint
from agentjobs.gateway.hidden_costs import hidden_cost, is_known_field
from agentjobs.gateway.measured_prompts import MAX_PROMPTS, MeasuredPrompts
from agentjobs.gateway.prices import Price
from agentjobs_runtime.sandbox_http.errors import RequestRefused
from agentjobs_runtime.upstream import Upstream, matches_model

PRICE = Price(input=1_000, output=10_000, cached_input=100, cache_write=1_250, max_output_tokens=99)


def upstream(url: str = "https://models.example", **options: Any) -> Upstream:
    return Upstream(api="openai", url=url, key="k", **options)


def prepared(
    endpoint: Endpoint,
    *,
    has_limit: bool = True,
    price: Price | None = PRICE,
    measured: MeasuredPrompts | None = None,
    **body: Any,
) -> Call:
    name = endpoint.output_limit_field(upstream())
    measured = measured or MeasuredPrompts()
    return prepare(endpoint, body, "m", price, name, has_limit=has_limit, measured=measured)


def sent(call: Call) -> Any:
    return msgspec.json.decode(call.body)


def refusal(endpoint: Endpoint = CHAT, **body: Any) -> RequestRefused:
    with pytest.raises(RequestRefused) as refused:
        prepared(endpoint, **body)
    return refused.value


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b'"text"', b"\xff", b"[" * 100_000, b'{"a":"\\ud800"}']
)
def test_a_body_that_is_not_a_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        parse(raw)
    assert refused.value.status == 400


def test_a_body_with_too_many_brackets_is_refused_before_parsing() -> None:
    with pytest.raises(RequestRefused) as refused:
        parse(b'{"a":[' + b"[]," * MAX_BRACKETS + b"[]]}")
    assert refused.value.status == 413


@pytest.mark.parametrize("part", [1, {"type": "text"}, [[]], {"content": [1, 2]}])
def test_a_conversation_with_too_many_parts_is_refused(part: Any) -> None:
    assert refusal(messages=[part] * (MAX_BLOCKS + 1)).status == 413
    assert refusal(messages=[{"role": "user", "content": [part] * MAX_BLOCKS}] * 2).status == 413


def test_of_two_equal_keys_the_last_is_checked_and_sent() -> None:
    call = prepared(CHAT, **parse(b'{"max_tokens":1,"max_tokens":7}'))

    assert call.output_tokens == 7
    assert sent(call) == {"max_tokens": 7}


@pytest.mark.parametrize("model", [None, 7, "", ["m"]])
def test_a_request_names_its_model(model: Any) -> None:
    with pytest.raises(RequestRefused, match="name a model"):
        read_model({"model": model}, upstream())


def test_the_name_of_a_model_is_bounded() -> None:
    assert read_model({"model": "m" * 256}, upstream()) == "m" * 256
    with pytest.raises(RequestRefused) as refused:
        read_model({"model": "m" * 257}, upstream(models=("m",)))
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("pattern", "model", "expected"),
    [
        ("*", "", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("*a", "\na", True),
        ("a*b*c", "a-c-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("a**c", "abc", True),
        ("*ab*ab*", "ab-a-b", False),
        ("[ab]*", "a", False),
    ],
)
def test_a_star_matches_any_text(pattern: str, model: str, *, expected: bool) -> None:
    assert matches_model(pattern, model) is expected


def test_no_name_makes_a_pattern_slow() -> None:
    # Backtracking over as many stars would outlast the machine.
    assert not matches_model("a" + "*-4-" * 60 + "*x*", "a" + "-4-a" * 50_000)


def test_only_listed_models_may_be_used() -> None:
    some = upstream(models=("gpt-5*", "own/[small]"))

    assert read_model({"model": "gpt-5-mini"}, some) == "gpt-5-mini"
    assert read_model({"model": "own/[small]"}, some) == "own/[small]"
    with pytest.raises(RequestRefused) as refused:
        read_model({"model": "gpt-6"}, some)
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
def test_while_a_budget_applies_an_output_limit_is_added_under_the_providers_name(
    endpoint: Endpoint, url: str, name: str
) -> None:
    added = prepare(
        endpoint,
        {},
        "m",
        PRICE,
        endpoint.output_limit_field(upstream(url)),
        has_limit=True,
        measured=MeasuredPrompts(),
    )

    assert sent(added) == {name: 99}
    assert added.output_tokens == 99


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize(("price", "expected"), [(PRICE, 99), (None, DEFAULT_MAX_OUTPUT)])
def test_without_a_budget_no_output_limit_is_added(
    endpoint: Endpoint, price: Price | None, expected: int
) -> None:
    call = prepared(endpoint, has_limit=False, price=price, input="hi")

    assert sent(call) == {"input": "hi"}
    assert call.output_tokens == expected


@pytest.mark.parametrize("has_limit", [True, False])
def test_an_output_limit_of_the_agent_is_not_changed(*, has_limit: bool) -> None:
    assert sent(prepared(MESSAGES, has_limit=has_limit, max_tokens=7)) == {"max_tokens": 7}


def test_the_largest_maximum_counts_for_every_choice() -> None:
    call = prepared(CHAT, max_tokens=10, max_completion_tokens=20, n=3)

    assert call.output_tokens == 60


def test_every_servers_output_limit_counts_and_the_apis_own_is_added() -> None:
    call = prepared(RESPONSES, n_predict=50, max_tokens=20)

    assert call.output_tokens == 50
    assert sent(call)["max_output_tokens"] == 50


@pytest.mark.parametrize("name", ["n", "best_of", "n_cmpl"])
def test_every_name_for_several_choices_counts(name: str) -> None:
    assert prepared(CHAT, max_tokens=10, **{name: 64}).output_tokens == 640


@pytest.mark.parametrize(
    "name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"]
)
def test_an_output_limit_of_zero_is_refused(name: str) -> None:
    for others in ({}, {"max_tokens": 7, "max_completion_tokens": 7}):
        refused = refusal(CHAT, **{**others, name: 0})
        assert refused.status == 400
        assert "between 1 and" in refused.message


@pytest.mark.parametrize("value", [-1, 1.5, "9", True, 10**12, [], 10**30])
def test_an_invalid_output_limit_is_refused(value: Any) -> None:
    assert refusal(max_tokens=value).status == 400
    assert refusal(n=value).status == 400


@pytest.mark.parametrize("value", [True, {}, [], 1, "false"])
def test_background_work_is_refused_whatever_the_value_is(value: Any) -> None:
    assert refusal(RESPONSES, background=value).status == 400
    assert prepared(RESPONSES, background=False).output_tokens > 0


def test_background_work_is_refused() -> None:
    assert "background" in refusal(RESPONSES, background=True).message


def test_the_usage_of_a_streamed_chat_is_requested() -> None:
    call = prepared(CHAT, stream=True, stream_options={"include_obfuscation": False})

    assert call.hide_usage
    assert sent(call)["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_an_agent_cannot_make_a_stream_report_usage_early() -> None:
    usage_options = {"include_usage": True, "continuous_usage_stats": True}
    call = prepared(CHAT, stream=True, stream_options=usage_options)

    assert not call.hide_usage
    assert sent(call)["stream_options"] == {"include_usage": True}


def test_usage_is_hidden_only_if_the_gateway_requested_it() -> None:
    assert not prepared(CHAT, stream=True, stream_options={"include_usage": True}).hide_usage
    assert not prepared(CHAT).hide_usage
    assert not prepared(RESPONSES, stream=True).hide_usage


def test_every_byte_of_text_counts_as_a_token() -> None:
    small = prepared(CHAT, messages=[{"role": "user", "content": ""}])
    large = prepared(CHAT, messages=[{"role": "user", "content": "ä" * 3_000}])

    assert large.input_tokens - small.input_tokens == 6_000


def test_tools_count_with_the_instructions_that_the_provider_adds() -> None:
    own = {"name": "own", "input_schema": {}}
    predefined = {"type": "bash_20250124", "name": "bash"}

    without = prepared(MESSAGES, messages=[], tools=[])
    assert prepared(MESSAGES, messages=[], tools=[own]).input_tokens - without.input_tokens > 1_000
    both = prepared(MESSAGES, messages=[], tools=[own, predefined])
    assert both.input_tokens - without.input_tokens > 3_000


@pytest.mark.parametrize(
    ("detail", "tokens"), [("low", 5_000), ("high", 5_000), ("original", 12_000), (None, 12_000)]
)
def test_an_image_that_openai_may_read_in_full_detail_counts_more(
    detail: str | None, tokens: int
) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,A", "detail": detail}
    call = prepared(RESPONSES, input=[{"role": "user", "content": [image]}])

    assert tokens < call.input_tokens < tokens + 300


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
def test_an_image_costs_the_same_regardless_of_its_size(picture: Any, wrap: Any) -> None:
    tokens = prepared(MESSAGES, **wrap(picture)).input_tokens

    assert TOKENS_PER_IMAGE < tokens < TOKENS_PER_IMAGE + 300


def test_text_like_an_image_in_a_tools_input_counts_as_text() -> None:
    disguise = {"type": "tool_use", "name": "t", "input": PICTURES[0]}
    call = prepared(MESSAGES, messages=[{"role": "assistant", "content": [disguise]}])

    assert call.input_tokens > 30_000


NO_PICTURES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": "x" * 90_000}},
    {"type": "image_url", "image_url": {"url": "data:text/plain," + "x" * 90_000}},
    {"type": "input_image", "image_url": "x" * 90_000},
    {"type": "image", "source": {"type": "text", "data": "x" * 90_000}},
]


@pytest.mark.parametrize("block", NO_PICTURES)
def test_text_in_an_image_block_counts_as_text(block: Any) -> None:
    call = prepared(CHAT, messages=[{"role": "user", "content": [block]}])

    assert call.input_tokens > 30_000 + TOKENS_PER_IMAGE


@pytest.mark.parametrize("kind", [[], {}, 7, None])
def test_a_block_of_an_unknown_type_counts_as_text(kind: Any) -> None:
    content = [{"type": kind, "tools": [], "text": "x" * 3_000}]
    assert prepared(CHAT, messages=[{"role": "user", "content": content}]).input_tokens > 1_000


def test_a_file_of_plain_text_costs_its_bytes() -> None:
    text = {"type": "document", "source": {"type": "text", "data": "A" * 90_000}}
    call = prepared(MESSAGES, messages=[{"role": "user", "content": [text]}])

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
    {"messages": [], "input": [{"type": "item_reference", "id": "msg_1"}]},
    {"input": {"content": [{"type": "input_file", "file_url": "https://x"}]}},
    {"input": {"content": {"type": "input_file", "file_data": "data:application/pdf;base64,A"}}},
    {"messages": [{"content": [{"type": "file", "file": {"file_data": "data:text/plain,A"}}]}]},
    {"messages": [{"content": [{"type": "input_audio", "input_audio": {"data": "A"}}]}]},
    {"messages": [{"content": [{"type": "document", "source": {"type": "base64"}}]}]},
    {"service_tier": "scale"},
    {"modalities": ["text", "audio"]},
    {"prediction": {"type": "content", "content": "abc"}},
    {"plugins": [{"id": "web"}]},
    {"context_management": {"edits": [{"type": "compact_20260112"}]}},
    {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]},
    {"context_management": {"edits": [{"type": "clear_thinking_20251015"}, "odd"]}},
    {"tools": [{"type": "function"}, {"type": "computer_use_preview"}]},
    {"tools": [{"type": "a_tool_of_tomorrow"}]},
    {"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]},
    {"tools": [{"type": "tool_search", "execution": "server"}]},
    {"tools": {"type": "web_search"}},
    {"tools": [{"type": []}]},
    {"tools": ["odd"]},
]
HIDDEN_FROM_MESSAGES: list[dict[str, Any]] = [
    {"tools": [{"type": "advisor_20260301", "name": "advisor"}]},
    {"tools": [{"type": "web_search_20260101", "name": "web_search"}]},
    {"tools": [{"type": "function", "name": "of_another_api"}]},
    {"speed": "fast"},
    {"inference_geo": "us"},
]


@pytest.mark.parametrize("body", HIDDEN)
def test_requests_of_unknown_cost_are_refused_while_a_budget_applies(body: Any) -> None:
    refused = refusal(RESPONSES, **body)

    assert (refused.status, refused.code) == (400, "cost_unknown")
    assert prepared(RESPONSES, has_limit=False, **body).input_tokens > 0


@pytest.mark.parametrize("body", HIDDEN_FROM_MESSAGES)
def test_messages_requests_of_unknown_cost_are_refused_too(body: Any) -> None:
    assert refusal(MESSAGES, **body).code == "cost_unknown"


@pytest.mark.parametrize("value", [{}, [], "", 0, False, {"a": 1}])
@pytest.mark.parametrize(
    "name",
    [
        *("previous_response_id", "conversation", "prompt", "thread", "container", "mcp_servers"),
        *("compaction", "fallbacks", "models", "plugins", "prediction", "audio", "provider"),
        *("web_search_options", "preset", "search_parameters"),
        *("service_tier", "speed", "inference_geo", "modalities"),
    ],
)
def test_an_option_of_unknown_cost_counts_whatever_its_value_is(name: str, value: Any) -> None:
    for endpoint in (CHAT, RESPONSES, MESSAGES):
        assert refusal(endpoint, **{name: value}).code == "cost_unknown"


@pytest.mark.parametrize(
    "body",
    [
        {"model": "openai/gpt-5:online"},
        {"model": "openai/gpt-5:nitro"},
        {"reasoning": {"effort": "low", "mode": "pro"}},
        {"context_management": {"edits": [], "compact_threshold": 1}},
        {"context_management": {"compaction": {}}},
    ],
)
def test_a_known_option_with_an_unknown_cost_is_refused(body: Any) -> None:
    assert refusal(RESPONSES, **body).code == "cost_unknown"


def test_unknown_options_are_left_out_only_while_a_budget_applies() -> None:
    unknown: dict[str, Any] = {"enable_search": {}, "of_tomorrow": None}

    call = prepared(CHAT, model="m", temperature=0, max_tokens=7, **unknown)
    assert sent(call) == {"model": "m", "temperature": 0, "max_tokens": 7}
    assert list(call.unknown_fields) == ["enable_search", "of_tomorrow"]

    call = prepared(CHAT, has_limit=False, **unknown)
    assert sent(call) == unknown
    assert list(call.unknown_fields) == []


def test_options_without_a_value_and_model_names_with_a_colon_pass() -> None:
    body = {"web_search_options": None, "audio": None, "model": "qwen3-coder:30b"}

    assert sent(prepared(CHAT, max_tokens=1, **body)) == {
        "model": "qwen3-coder:30b",
        "max_tokens": 1,
    }


def test_every_option_of_the_apis_own_clients_is_known() -> None:
    """New releases of the clients fail here until somebody knows what their options cost."""
    # Importing them takes seconds, and every test process collects this module.
    from anthropic.types.beta import message_create_params
    from openai.types.chat import completion_create_params
    from openai.types.responses import response_create_params

    options = {
        *completion_create_params.CompletionCreateParamsBase.__annotations__,
        *response_create_params.ResponseCreateParamsBase.__annotations__,
        *message_create_params.MessageCreateParamsBase.__annotations__,
    }
    headers = {"betas", "workspace_id"}
    of_unknown_cost = {"access_programs", "fallback_credit_token", "image"}

    unknown = {name for name in options if not is_known_field(name)}
    refused = {name for name in unknown if hidden_cost({name: {}}, [], "openai")}
    assert unknown - refused == headers | of_unknown_cost


OPENAI_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
    {"type": "custom", "name": "apply_patch"},
    {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "apply_patch"},
    {"type": "tool_search", "execution": "client"},
]
ANTHROPIC_TOOLS: list[dict[str, Any]] = [
    {"name": "mcp__files__read", "input_schema": {"type": "object"}},
    {"type": "custom", "name": "Edit"},
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {"type": "computer_20250124", "name": "computer"},
    {"type": "memory_20250818", "name": "memory"},
]


@pytest.mark.parametrize(
    ("endpoint", "tools"),
    [(CHAT, OPENAI_TOOLS), (RESPONSES, OPENAI_TOOLS), (MESSAGES, ANTHROPIC_TOOLS)],
)
def test_tools_that_the_agent_runs_have_no_hidden_cost(
    endpoint: Endpoint, tools: list[dict[str, Any]]
) -> None:
    assert prepared(endpoint, tools=tools).cost(PRICE) > 0


def test_clearing_old_parts_of_a_conversation_has_no_hidden_cost() -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_1"}]

    assert prepared(MESSAGES, context_management={"edits": edits}, tools=[]).cost(PRICE) > 0


def test_the_reservation_covers_the_most_expensive_input_class() -> None:
    plain = prepared(MESSAGES, max_tokens=10, messages=[])
    an_hour = prepared(
        MESSAGES, max_tokens=10, messages=[], cache_control={"type": "ephemeral", "ttl": "1h"}
    )

    assert plain.cost(PRICE) == plain.input_tokens * 1_250 + 10 * 10_000
    assert an_hour.cost(PRICE) == an_hour.input_tokens * 2_000 + 10 * 10_000
    assert plain.cost(None) == 0


def chat_message(text: str, role: str = "user", **options: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text, **options}]}


def test_a_repeated_beginning_counts_as_the_provider_counted_it() -> None:
    measured = MeasuredPrompts()
    marked = chat_message("x" * 40_000, cache_control={"type": "ephemeral"})
    first = prepared(MESSAGES, measured=measured, messages=[marked], tools=[])
    assert first.input_tokens > 40_000
    measured.record(first.prompt_digests, 10_000)

    longer = [chat_message("x" * 40_000), chat_message("y" * 500)]
    second = prepared(MESSAGES, measured=measured, messages=longer, tools=[])

    assert 10_500 < second.input_tokens < 10_700


CHANGED: list[dict[str, Any]] = [
    {"messages": [chat_message("z" * 40_000), chat_message("y")]},
    {"messages": [chat_message("x" * 40_000)], "system": "another"},
    {"messages": [chat_message("x" * 40_000)], "model": "another"},
    {"messages": [chat_message("x" * 40_000)], "input": [chat_message("y" * 40_000)]},
    {"messages": [chat_message("x" * 40_000)], "truncation": "auto"},
    {
        "messages": [chat_message("x" * 40_000)],
        "context_management": {"edits": [{"type": "clear_x"}]},
    },
]


@pytest.mark.parametrize("body", CHANGED)
def test_another_prompt_counts_a_token_per_byte(body: dict[str, Any]) -> None:
    measured = MeasuredPrompts()
    for name in ("truncation", "context_management", "input", "none"):
        earlier = {key: value for key, value in body.items() if key == name}
        call = prepared(
            MESSAGES, measured=measured, messages=[chat_message("x" * 40_000)], **earlier
        )
        measured.record(call.prompt_digests, 10)

    assert prepared(MESSAGES, measured=measured, **body).input_tokens > 40_000


def test_the_memory_for_counted_prompts_is_bounded() -> None:
    measured = MeasuredPrompts()
    for number in range(MAX_PROMPTS + 1):
        measured.record([b"%d" % number], number)

    assert measured.longest_part([b"0"]) is None
    assert measured.longest_part([b"1"]) is not None


def test_a_deeply_nested_message_counts_a_token_per_byte() -> None:
    messages: Any = []
    for _ in range(sys.getrecursionlimit() // 2):
        messages = [messages]

    call = prepared(CHAT, messages=messages)

    assert call.prompt_digests == []
    assert call.input_tokens > sys.getrecursionlimit()
