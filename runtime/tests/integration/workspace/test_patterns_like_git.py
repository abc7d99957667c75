"""Patterns match the same paths as the same text in a .gitignore, compared with git itself."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs_runtime.repo_files.patterns import Pattern, fold_path

NAMES = st.sampled_from(["a", "b", "ab", "abc", ".x"])
PIECES = st.sampled_from(["a", "b", "ab", "*", "a*", "?", "**", "[ab]", "*b"])


@pytest.fixture(scope="module")
def empty_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    return directory


@settings(max_examples=60)
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=4),
    start=st.sampled_from(["", "/"]),
    end=st.sampled_from(["", "/"]),
    names=st.lists(NAMES, min_size=1, max_size=4),
)
def test_git_agrees_about_what_a_pattern_matches(
    empty_repository: Path, pieces: list[str], start: str, end: str, names: list[str]
) -> None:
    pattern, path = start + "/".join(pieces) + end, "/".join(names)
    (empty_repository / ".git/info/exclude").write_text(f"{pattern}\n")
    matched = subprocess.run(
        ["git", "check-ignore", "--no-index", "-q", "--", path],
        cwd=empty_repository,
        capture_output=True,
        check=False,
    )
    ours = Pattern.parse(pattern).matches(fold_path(path.encode()))
    assert ours == (matched.returncode == 0)
