"""The OpenAPI document and the validation of requests accept and refuse the same values."""

import re
from functools import cache
from typing import Any, get_args
from urllib.parse import urlencode

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs.jobs.model import ConfigOverride
from agentjobs.jobs.operations.follow_up import FollowUpRequest
from agentjobs.jobs.validation import request_faults
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS
from agentjobs.web.api.query import read_query
from agentjobs_runtime.json_fields import find_faults
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.registries import ECOSYSTEMS, Ecosystem
from agentjobs_worker.agents.catalog import Catalog

DOCUMENT = build_document(OPERATIONS, base=BASE)
SCHEMAS = DOCUMENT["components"]["schemas"]
JOB = {"repo": "acme/shop", "agent": "fixer"}
NO_AGENTS = Catalog([])
PARAMETERS = [
    pytest.param(operation.query, parameter, id=f"{operation.id}-{parameter['name']}")
    for operation in OPERATIONS
    for parameter in DOCUMENT["paths"][operation.path][operation.method.lower()].get(
        "parameters", []
    )
    # The schema cannot say whether the service issued a cursor.
    if parameter["in"] == "query" and parameter["name"] != "cursor"
]

# Characters at which rules differ: in names of branches, in titles, as whitespace.
SPECIAL = "a0Z-_.@{}[]~^:?*\\/ \t\n\r\x00\x1c\x7f\x85\xa0\u200d\u2028\u202e\u2066\ufeffé✨.lock"
TEXTS = st.one_of(
    st.text(SPECIAL, max_size=12),
    st.text(max_size=12),
    st.sampled_from(
        ["", "HEAD", "HEAD\n", "@", "main\n", "release+1", "fix--x", "a.lock", "a.lock/b", "a/b/c"]
    ),
    st.sampled_from(["low", "Low", "LOW\n", "none", "lowest", "acme/shop\n", "a//b", "ä/b"]),
    st.sampled_from([0, 1, 63, 64, 65, 100, 101, 200, 201, 255, 256, 500, 501]).map("x".__mul__),
    st.sampled_from([249, 250, 255, 256]).map(lambda size: f"{'a' * size}/{'b' * size}"),
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, 1.0, 0.5, -1, 604_800, 604_801, 1_000_000, 1_000_000.5, 10**400]),
)
VALUES = st.one_of(
    TEXTS,
    NUMBERS,
    st.none(),
    st.booleans(),
    st.lists(TEXTS, max_size=3),
    st.integers(18, 22).map(lambda count: ["ann"] * count),
    st.lists(NUMBERS, max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@cache
def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    root = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(root)


def schema_accepts(name: str, value: Any) -> bool:
    return validator(name).is_valid(value)


@pytest.mark.parametrize("field", [*JOB, "ticket_id", "config_override", "labels", "unknown"])
@given(value=VALUES)
@settings(max_examples=150)
def test_a_field_of_a_job_request(field: str, value: Any) -> None:
    body = {**JOB, field: value}
    assert schema_accepts("CreateJobRequest", body) == (not request_faults(body, NO_AGENTS))


@pytest.mark.parametrize("key", [*ConfigOverride.__annotations__, "unknown"])
@given(value=VALUES)
@settings(max_examples=150)
def test_a_key_of_the_override(key: str, value: Any) -> None:
    body = {**JOB, "config_override": {key: value}}
    assert schema_accepts("CreateJobRequest", body) == (not request_faults(body, NO_AGENTS))


@given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.none(), st.integers()), max_size=2))
def test_labels(labels: dict[str, Any]) -> None:
    body = {**JOB, "labels": labels}
    assert schema_accepts("CreateJobRequest", body) == (not request_faults(body, NO_AGENTS))


@pytest.mark.parametrize("count", [16, 17])
def test_the_number_of_labels(count: int) -> None:
    body = {**JOB, "labels": {f"key-{index}": "" for index in range(count)}}
    assert schema_accepts("CreateJobRequest", body) == (count == 16)
    message = "must have at most 16 entries"
    faults = [] if count == 16 else [{"field": "labels", "message": message}]
    assert request_faults(body, NO_AGENTS) == faults


@pytest.mark.parametrize("field", FollowUpRequest.__struct_fields__)
@given(value=VALUES)
@settings(max_examples=50)
def test_a_field_of_a_follow_up(field: str, value: Any) -> None:
    body = {"prompt": "Go", field: value}
    assert schema_accepts("FollowUpRequest", body) == (not find_faults(body, FollowUpRequest))


@pytest.mark.parametrize("missing", JOB)
def test_required_fields(missing: str) -> None:
    body = {name: value for name, value in JOB.items() if name != missing}
    assert not schema_accepts("CreateJobRequest", body)
    assert request_faults(body, NO_AGENTS) == [{"field": missing, "message": "is required"}]


@pytest.mark.parametrize(("query", "parameter"), PARAMETERS)
@given(
    value=st.one_of(
        TEXTS,
        st.integers().map(str),
        st.sampled_from([-1, 0, 1, 20, 60, 61, 100, 101, 1_000, 1_001, 10**30]).map(str),
        st.sampled_from(["true", "false", "True", "1", "1.5", "queued", "Queued", "PyPI", "pypi"]),
    )
)
@settings(max_examples=50)
def test_a_query_parameter(query: type, parameter: dict[str, Any], value: str) -> None:
    schema = parameter["schema"]
    typed: Any = value
    if schema["type"] == "integer" and re.fullmatch("-?[0-9]+", value):
        typed = int(value)
    if schema["type"] == "boolean":
        typed = {"true": True, "false": False}.get(value, value)
    name = parameter["name"]
    if schema["type"] == "array":
        typed = value.split(",")
    if schema["type"] == "object":
        name = f"{name}.key"
        typed = {name: value}
    scope = {"query_string": urlencode({name: value}).encode()}
    if jsonschema_rs.Draft202012Validator(schema).is_valid(typed):
        read_query(scope, query)
    else:
        with pytest.raises(Problem, match=parameter["name"]):
            read_query(scope, query)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", "Réparer le prix ✨"),
        ("title", "👨‍👩‍👧"),
        ("base_branch", "release+1"),
        ("base_branch", "fix--x"),
        ("base_branch", "über/größe"),
    ],
)
def test_the_document_accepts_what_people_write(key: str, value: str) -> None:
    body = {**JOB, "config_override": {key: value}}
    assert schema_accepts("CreateJobRequest", body)
    assert request_faults(body, NO_AGENTS) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("timeout_seconds", 604_801, "must be at most 604800"),
        ("timeout_seconds", 10**400, "must be at most 604800"),
        ("timeout_seconds", 0, "must be at least 1"),
        ("timeout_seconds", 1.5, "must be a whole number"),
        ("max_cost_usd", 0, "must be greater than 0"),
        ("max_cost_usd", 1_000_001, "must be at most 1000000"),
        ("max_cost_usd", "1", "must be a number"),
        ("title", "x" * 201, "must be at most 200 characters"),
        ("title", " ", "must not be blank"),
        ("title", "a\nb", "must be one line without control characters"),
        ("title", "a\u202eb", "must be one line without control characters"),
        ("title", 5, "must be a string"),
        ("base_branch", "x" * 201, "must be at most 200 characters"),
        ("base_branch", "a..b", "must be the name of a branch"),
        ("reviewers", ["a"] * 21, "must have at most 20 items"),
        ("reviewers", "ann", "must be a list"),
        ("draft", "yes", "must be true or false"),
        ("prompt", "a\x00b", "must not contain null characters"),
        ("priority", "urgent", "must be one of high, low, normal"),
    ],
)
def test_a_message_names_the_constraint_that_was_violated(
    key: str, value: Any, message: str
) -> None:
    body = {**JOB, "config_override": {key: value}}
    fault = {"field": f"config_override.{key}", "message": message}
    assert request_faults(body, NO_AGENTS) == [fault]


@pytest.mark.parametrize(
    ("reviewers", "message"),
    [
        (["ann", ""], "must not be empty"),
        (["ann", "x" * 101], "must be at most 100 characters"),
        (["ann", "b\nc"], "must be one line without control characters"),
        (["ann", 7], "must be a string"),
    ],
)
def test_an_error_in_a_list_names_the_item(reviewers: list[Any], message: str) -> None:
    body = {**JOB, "config_override": {"reviewers": reviewers}}
    fault = {"field": "config_override.reviewers[1]", "message": message}
    assert request_faults(body, NO_AGENTS) == [fault]


@pytest.mark.parametrize(
    ("labels", "field", "message"),
    [
        ("team", "labels", "must be an object"),
        ({"team": 1}, "labels.team", "must be a string"),
        ({"team": "x" * 256}, "labels.team", "must be at most 255 characters"),
        ({"team": "a\nb"}, "labels.team", "must be one line without control characters"),
        (
            {"a b": "x"},
            "labels.a b",
            "must have a key of at most 63 letters, digits and `._/-`, a letter or digit first",
        ),
    ],
)
def test_an_error_in_a_label_names_its_key(labels: Any, field: str, message: str) -> None:
    fault = {"field": field, "message": message}
    assert request_faults({**JOB, "labels": labels}, NO_AGENTS) == [fault]


def test_generated_clients_keep_the_keys_that_only_the_agent_knows() -> None:
    assert SCHEMAS["ConfigOverride"]["additionalProperties"] is True
    assert set(SCHEMAS["ConfigOverride"]["properties"]) == set(ConfigOverride.__annotations__)


def test_the_ecosystems_of_the_query_are_those_of_the_settings() -> None:
    assert get_args(Ecosystem) == tuple(ECOSYSTEMS)
