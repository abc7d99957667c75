import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.jobs.model import CreateJobRequest, create_job_request
from agentjobs.jobs.validation import plain_request, request_faults
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_worker.agents.catalog import Catalog

CATALOG = Catalog(
    [
        Agent(
            id="fixer",
            name="Fixer",
            plan_required="free",
            command=("true",),
            timeout_seconds=600,
            environment={},
            network=(),
        )
    ]
)


def fields(body: dict[str, Any]) -> list[str]:
    return [fault["field"] for fault in request_faults(body, CATALOG)]


def overriding(**override: Any) -> list[str]:
    return fields({"repo": "a/b", "agent": "fixer", "config_override": override})


def test_only_repo_and_agent_are_required() -> None:
    assert fields({"repo": "acme/shop", "agent": "fixer"}) == []


def test_all_faults_are_reported_at_once() -> None:
    body = {"repo": 1, "ticket_id": [], "config_override": "x"}
    assert fields(body) == ["repo", "agent", "ticket_id", "config_override"]


@pytest.mark.parametrize("repo", ["", " ", "shop", "a//c", "a /b", "/b", "a/", "a/b\x00", "ä/b"])
def test_an_invalid_repo_name_is_refused(repo: str) -> None:
    assert fields({"repo": repo, "agent": "fixer"})[0] == "repo"


def test_unknown_fields_and_override_keys_are_accepted() -> None:
    body = {"repo": "a/b", "agent": "fixer", "colour": 1, "config_override": {"model": {"x": [1]}}}
    assert fields(body) == []


def test_null_for_an_optional_field_means_absent() -> None:
    body = {"repo": "a/b", "agent": "fixer", "ticket_id": None, "config_override": None}
    assert fields(body) == []


@pytest.mark.parametrize("severity", ["low", "MEDIUM", "moderate", "High", "critical", "none"])
def test_every_severity_is_accepted_in_any_case(severity: str) -> None:
    assert overriding(auto_trigger_on_cve_severity=severity) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto_trigger_on_cve_severity", "urgent"),
        ("auto_trigger_on_cve_severity", None),
        ("prompt", ""),
        ("prompt", 3),
        ("base_branch", "../x"),
        ("base_branch", "-x"),
        ("base_branch", "a b"),
        ("timeout_seconds", 0),
        ("timeout_seconds", 1.5),
        ("timeout_seconds", True),
        ("timeout_seconds", 601),
        ("max_cost_usd", 0),
        ("max_cost_usd", "1"),
        ("draft", "yes"),
        ("reviewers", "alice"),
        ("title", "two\nlines"),
        ("title", ""),
        ("priority", "urgent"),
        ("priority", "HIGH"),
        ("priority", 1),
        ("priority", None),
    ],
)
def test_a_known_override_of_the_wrong_type_is_refused(key: str, value: object) -> None:
    assert overriding(**{key: value}) == [f"config_override.{key}"]


def test_a_timeout_may_be_lowered() -> None:
    assert overriding(timeout_seconds=600, max_cost_usd=0.5, base_branch="release/1.x") == []


def test_overrides_above_16_kib_are_refused() -> None:
    assert overriding(model="x" * 17_000) == ["config_override"]


_TEXTS = st.one_of(
    st.sampled_from(
        ["a/b", "fixer", "A-1", "", " ", "\x7f", "a\tb", "a\x00b", "é", "a\\b", "a" * 300]
    ),
    st.text(max_size=5),
)
_VALUES = st.one_of(
    _TEXTS,
    st.none(),
    st.integers(),
    st.dictionaries(_TEXTS, _TEXTS, max_size=2),
    st.just({"prompt": "x"}),
)


@given(
    st.dictionaries(
        st.sampled_from(["repo", "agent", "ticket_id", "config_override", "labels", "unknown"]),
        _VALUES,
    ),
    st.booleans(),
)
def test_a_plain_request_is_what_the_examination_would_accept(
    body: dict[str, Any], is_escaped: bool
) -> None:
    request = plain_request(json.dumps(body, ensure_ascii=is_escaped).encode(errors="replace"))
    if request is not None:
        assert request_faults(body, CATALOG) == []
        assert _fields(request) == _fields(create_job_request(body))


def test_the_usual_request_is_plain() -> None:
    body = {"repo": "a/b", "agent": "fixer", "ticket_id": "A-1", "labels": {"team": "pay"}}
    request = plain_request(json.dumps(body).encode())
    assert request is not None
    assert _fields(request) == ("a/b", "fixer", "A-1", None, {"team": "pay"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"repo":"a/b"}',
        b'{"repo":"a/b","agent":"fixer","more":1e999}',
        b'{"repo":"a/b","agent":"fi\\u0000xer"}',
        b'{"repo":"a/b","agent":"\x7f"}',
        b'{"repo":"a/b","agent":"fixer"} {}',
        '{"repo":"a/b","agent":"fixér"}'.encode(),
        b'{"repo":"a/b","agent":"fixer","config_override":{}}',
        b'{"repo":"a/b","agent":"fixer","labels":{"team":"\x7f"}}',
        b'{"repo":"a/b","agent":"fixer","labels":{"a b":"x"}}',
    ],
)
def test_every_other_body_is_examined(body: bytes) -> None:
    assert plain_request(body) is None


def _fields(request: CreateJobRequest) -> tuple[Any, ...]:
    return tuple(getattr(request, name) for name in CreateJobRequest.__struct_fields__)
