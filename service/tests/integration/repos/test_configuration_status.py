"""The status of `.agentjobs.toml` that a repository's page shows."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentjobs.local_git.repositories import import_repository, path
from agentjobs.repos.configuration_status import (
    MAX_CHARACTERS,
    ConfigurationIssue,
    ConfigurationStatus,
    ConfiguredValue,
    configuration_status,
)
from agentjobs.repos.queries import RepoView
from tests.support.git_commands import git_output, make_repository

FILE = ".agentjobs.toml"


def view(branch: str = "main") -> RepoView:
    return RepoView("repo_1", "a/b", "local", "ready", 0, branch, None, None, None, ())


async def status_of(directory: Path, files: Mapping[str, str]) -> ConfigurationStatus:
    source = make_repository(directory / "source", {"README.md": "x", **files})
    await import_repository(str(source), path(directory, "repo_1"))
    return await configuration_status(directory, view())


def errors(status: ConfigurationStatus) -> list[str]:
    return [issue.reason for issue in status.issues if issue.severity == "error"]


async def test_a_repository_without_the_file_has_no_issues(tmp_path: Path) -> None:
    status = await status_of(tmp_path, {f"deeper/{FILE}": "verify = 1"})
    assert not status.is_present
    assert status.commit == git_output("rev-parse", "HEAD", cwd=tmp_path / "source")
    assert (status.issues, status.values) == ((), ())


async def test_values_are_listed_for_the_top_level_and_for_each_agent(tmp_path: Path) -> None:
    text = """
verify = "make check"
reviewers = ["ada", "bo"]
draft = true
network = []
auto_trigger_on_cve_severity = "high"
protected_paths = ["ci/**"]
[agents.fixer]
verify = ["make", "all tests"]
timeout_seconds = 60
[fixes]
group = "directory"
[environment]
setup = "npm ci"
[environment.variables]
CI = "1"
[[environment.services]]
name = "db"
image = "postgres:17"
"""
    status = await status_of(tmp_path, {FILE: text})
    assert status.is_present
    assert not errors(status)
    assert set(status.values) == {
        ConfiguredValue("", "verify", ("make check",)),
        ConfiguredValue("", "reviewers", ("ada", "bo")),
        ConfiguredValue("", "draft", ("true",)),
        ConfiguredValue("", "network", ()),
        ConfiguredValue("", "auto_trigger_on_cve_severity", ("high",)),
        ConfiguredValue("", "protected_paths", ("ci/**",)),
        ConfiguredValue("fixer", "verify", ("make 'all tests'",)),
        ConfiguredValue("fixer", "timeout_seconds", ("60",)),
        ConfiguredValue("", "fixes.group", ("directory",)),
        ConfiguredValue("", "environment.setup", ("npm ci",)),
        ConfiguredValue("", "environment.variables", ("CI=1",)),
        ConfiguredValue("", "environment.services.db.image", ("postgres:17",)),
    }


async def test_warnings_and_errors_have_a_line(tmp_path: Path) -> None:
    warned = await status_of(tmp_path / "1", {FILE: '\n\nreviewer = ["ada"]\ndraft = false\n'})
    assert [(issue.severity, issue.line) for issue in warned.issues] == [("warning", 3)]
    assert "did you mean reviewers?" in warned.issues[0].reason
    assert warned.values == (ConfiguredValue("", "draft", ("false",)),)
    wrong = await status_of(tmp_path / "2", {FILE: "draft = false\ntimeout_seconds = -1\n"})
    assert [(issue.severity, issue.line) for issue in wrong.issues] == [("error", 2)]
    assert wrong.values == ()
    broken = await status_of(tmp_path / "3", {FILE: "draft = false\nverify = [\n'"})
    assert errors(broken)
    assert broken.issues[0].line == 3


@pytest.mark.parametrize(
    "text",
    [
        "x" * 70_000,
        "[" * 30_000,
        "a = " + "[" * 10_000,
        "\n".join(f'k{n} = "x"' for n in range(5_000)),
        "agents = 3",
        "\x00",
        f'"{FILE}, line 9: x" = 1',
        'verify = "' + "x" * 50_000 + '"',
        'reviewers = ["\\u202e"]',
        "a" * 200 + ".b" * 300 + " = 1",
    ],
)
async def test_hostile_content_is_truncated_and_does_not_raise(tmp_path: Path, text: str) -> None:
    status = await status_of(tmp_path, {FILE: text})
    assert status.is_present
    assert len(status.issues) < 50
    assert all(len(issue.reason) <= MAX_CHARACTERS for issue in status.issues)
    assert all(len(entry) <= MAX_CHARACTERS for value in status.values for entry in value.entries)


async def test_a_symlink_is_an_error_and_is_not_followed(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    (source / FILE).symlink_to("/etc/passwd")
    git_output("add", "-A", cwd=source)
    git_output("commit", "-q", "-m", "link", cwd=source)
    await import_repository(str(source), path(tmp_path, "repo_1"))
    status = await configuration_status(tmp_path, view())
    reason = "must be a regular file, not a symlink or submodule"
    assert status.issues == (ConfigurationIssue("error", None, reason),)


async def test_an_unreadable_repository_is_an_error(tmp_path: Path) -> None:
    assert errors(await configuration_status(tmp_path, view()))
    await status_of(tmp_path, {})
    status = await configuration_status(tmp_path, view("gone"))
    assert [issue.reason for issue in status.issues] == ["the branch gone is gone"]
