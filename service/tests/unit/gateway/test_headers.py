"""Which headers of an agent reach the provider."""

import pytest

from agentjobs.gateway.headers import select_betas

CLAUDE_CODE = "claude-code-20250219,interleaved-thinking-2025-05-14, effort-2025-11-24"


def test_without_a_budget_beta_headers_are_forwarded_unchanged() -> None:
    given = {"anthropic-beta": "fast-mode-2026-02-01", "openai-beta": "x=y", "x-other": "z"}

    betas = {"anthropic-beta": "fast-mode-2026-02-01", "openai-beta": "x=y"}
    assert select_betas(given, has_limit=False) == (betas, [])


def test_while_a_budget_applies_known_betas_are_forwarded() -> None:
    given = {"anthropic-beta": CLAUDE_CODE, "openai-beta": "responses=experimental"}

    betas, removed = select_betas(given, has_limit=True)

    assert betas["anthropic-beta"] == CLAUDE_CODE.replace(", ", ",")
    assert betas["openai-beta"] == "responses=experimental"
    assert removed == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("anthropic-beta", "fast-mode-2026-02-01"),
        ("anthropic-beta", "context-1m-2025-08-07"),
        ("anthropic-beta", "effort-2025-11-24-and-more"),
        ("anthropic-beta", "effort-"),
        ("anthropic-beta", "effort-2025-11-24\nfast-mode-2026-02-01"),
        ("openai-beta", "responses=experimental;x"),
        ("openai-beta", "effort-2025-11-24"),
    ],
)
def test_while_a_budget_applies_other_betas_are_removed(name: str, value: str) -> None:
    assert select_betas({name: value}, has_limit=True) == ({}, [value])
    kept = {"anthropic-beta": "claude-code-20250219", "openai-beta": "responses=v1"}[name]
    assert select_betas({name: f"{value},,{kept}"}, has_limit=True) == ({name: kept}, [value])
