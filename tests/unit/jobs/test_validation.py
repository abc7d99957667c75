from typing import Any

import pytest

from agentjobs.agents.catalog import Catalog
from agentjobs.agents.definitions import Agent
from agentjobs.jobs.validation import request_faults

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


def test_repo_and_agent_are_all_that_is_required() -> None:
    assert fields({"repo": "acme/shop", "agent": "fixer"}) == []


def test_every_fault_is_told_at_once() -> None:
    body = {"repo": 1, "ticket_id": [], "config_override": "x"}
    assert fields(body) == ["repo", "agent", "ticket_id", "config_override"]


@pytest.mark.parametrize("repo", ["", " ", "shop", "a//c", "a /b", "/b", "a/", "a/b\x00", "ä/b"])
def test_a_repo_that_is_no_full_name_is_refused(repo: str) -> None:
    assert fields({"repo": repo, "agent": "fixer"})[0] == "repo"


def test_unknown_fields_and_unknown_override_keys_are_let_through() -> None:
    body = {"repo": "a/b", "agent": "fixer", "colour": 1, "config_override": {"model": {"x": [1]}}}
    assert fields(body) == []


def test_null_for_an_optional_field_is_its_absence() -> None:
    body = {"repo": "a/b", "agent": "fixer", "ticket_id": None, "config_override": None}
    assert fields(body) == []


@pytest.mark.parametrize("severity", ["low", "MEDIUM", "moderate", "High", "critical", "none"])
def test_every_severity_is_known_in_any_case(severity: str) -> None:
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
    ],
)
def test_a_known_override_of_the_wrong_kind_is_refused(key: str, value: object) -> None:
    assert overriding(**{key: value}) == [f"config_override.{key}"]


def test_a_timeout_may_be_lowered() -> None:
    assert overriding(timeout_seconds=600, max_cost_usd=0.5, base_branch="release/1.x") == []


def test_overrides_past_16_kib_are_refused() -> None:
    assert overriding(model="x" * 17_000) == ["config_override"]
