"""Patterns over paths: what people know from .gitignore, against any case and every byte."""

import time

import pytest

from agentjobs.workspace.patterns import Pattern, folded_names
from agentjobs.workspace.rules import paths_matching, protected_paths


def matches(pattern: str, path: str) -> bool:
    return Pattern.parse(pattern).matches(folded_names(path.encode()))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("docs", "docs"),
        ("docs", "docs/a.md"),
        ("docs", "x/docs/a.md"),
        ("docs/", "docs/a.md"),
        ("/docs", "docs/a/b.md"),
        ("docs/**", "docs/a/b.md"),
        ("docs/*.md", "docs/a.md"),
        ("**/secret", "secret"),
        ("**/secret", "a/b/secret"),
        ("a/**/z", "a/z"),
        ("a/**/z", "a/b/c/z"),
        ("a/**/**/z", "a/z"),
        ("*.sql", "deep/down/x.SQL"),
        ("migrations/????_*.py", "migrations/0001_first.py"),
        ("src/[a-c]*", "src/bee/x"),
        ("Infra/Prod", "infra/PROD/main.tf"),
        ("infra", "inf\u200cra/x"),
        ("infra", "infra./x"),
        ("**", "anything/at/all"),
        ("*", "x"),
        ("a b", "a b/c"),
        ("new\u00ebl", "new\u00cbl"),
        ("a*b", "a\nb"),
    ],
)
def test_what_a_pattern_matches(pattern: str, path: str) -> None:
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("docs", "docs2"),
        ("docs/", "docs"),
        ("/docs", "x/docs"),
        ("docs/**", "docs"),
        ("**/", "a"),
        ("docs/a", "x/docs/a"),
        ("docs/*.md", "docs/a/b.md"),
        ("a/**/z", "a/b"),
        ("a?c", "a/c"),
        ("*.sql", "sql"),
        ("**/x/y", "x"),
    ],
)
def test_what_a_pattern_does_not_match(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


@pytest.mark.parametrize(
    "pattern", ["", "/", " ", "!x", "a\\b", "a\nb", "../x", "a/../b", "./a", "a//b", "x" * 400]
)
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no pattern"):
        Pattern.parse(pattern)


def test_what_stands_in_place_of_a_protected_directory_is_protected_too() -> None:
    patterns = [Pattern.parse("infra/prod/**")]
    assert paths_matching([b"infra", b"infra/prod", b"infra/prod/x"], patterns) == [
        b"infra",
        b"infra/prod",
        b"infra/prod/x",
    ]
    assert paths_matching([b"infra/dev", b"other", b"prod"], patterns) == []
    assert paths_matching([b"any"], [Pattern.parse("*/secret"), Pattern.parse("**/x/y")]) == []


def test_only_what_is_lifted_is_open() -> None:
    lifted = [Pattern.parse(".github/workflows/docs-*.yml"), Pattern.parse("codeowners")]
    paths = [
        b".github/workflows/docs-build.yml",
        b".github/workflows/release.yml",
        b".github/workflows",
        b".github",
        b"docs/CODEOWNERS",
        b".agentjobs.toml",
    ]
    assert protected_paths(paths, lifted) == [paths[1], paths[2], paths[3], paths[5]]


def test_a_package_that_has_the_name_of_a_protected_file_is_free() -> None:
    assert protected_paths([b"pkg/codeowners/parse.go"]) == []


def test_a_pattern_made_to_be_slow_is_not() -> None:
    pattern = Pattern.parse("/".join(["**", "a*a*a*a*a*a*b"] * 15))
    path = folded_names(b"/".join([b"a" * 200] * 100))
    started = time.perf_counter()
    assert not pattern.matches(path)
    # Milliseconds; a matcher that goes back would need longer than the universe has.
    assert time.perf_counter() - started < 10
