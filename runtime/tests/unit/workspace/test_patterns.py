"""Path patterns: the syntax of .gitignore, case-insensitive, for arbitrary bytes."""

import time

import pytest

from agentjobs_runtime.repo_files.patterns import Pattern, fold_path
from agentjobs_runtime.repo_files.rules import paths_matching, protected_paths


def matches(pattern: str, path: str) -> bool:
    return Pattern.parse(pattern).matches(fold_path(path.encode()))


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
def test_a_pattern_matches_these_paths(pattern: str, path: str) -> None:
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
def test_a_pattern_does_not_match_these_paths(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


@pytest.mark.parametrize(
    "pattern", ["", "/", " ", "!x", "a\\b", "a\nb", "../x", "a/../b", "./a", "a//b", "x" * 400]
)
def test_an_invalid_pattern_is_reported(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a pattern"):
        Pattern.parse(pattern)


def test_a_path_that_replaces_a_protected_directory_is_protected() -> None:
    patterns = [Pattern.parse("infra/prod/**")]
    assert paths_matching([b"infra", b"infra/prod", b"infra/prod/x"], patterns) == [
        b"infra",
        b"infra/prod",
        b"infra/prod/x",
    ]
    assert paths_matching([b"infra/dev", b"other", b"prod"], patterns) == []
    assert paths_matching([b"any"], [Pattern.parse("*/secret"), Pattern.parse("**/x/y")]) == []


def test_only_lifted_paths_are_allowed() -> None:
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


def test_a_directory_named_like_a_protected_file_is_allowed() -> None:
    assert protected_paths([b"pkg/codeowners/parse.go"]) == []


def test_a_hostile_pattern_is_matched_quickly() -> None:
    pattern = Pattern.parse("/".join(["**", "a*a*a*a*a*a*b"] * 15))
    path = fold_path(b"/".join([b"a" * 200] * 100))
    started = time.perf_counter()
    assert not pattern.matches(path)
    # Takes milliseconds; a backtracking matcher would never finish.
    assert time.perf_counter() - started < 10
