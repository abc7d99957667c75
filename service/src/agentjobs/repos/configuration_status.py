"""The status of a repository's `.agentjobs.toml` for its page: presence, issues, effective values.

The content is untrusted: this module truncates it, and templates escape it.
"""

import asyncio
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from agentjobs.local_git import repositories
from agentjobs.repos.queries import RepoView
from agentjobs.repos.service_file_reader import InvalidServiceFile, read_service_file
from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.refs import HEADS, resolve
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_configuration import (
    FILE_NAME,
    MAX_BYTES,
    Configuration,
    ConfigurationError,
    FixConfiguration,
    InventoryConfiguration,
    RunConfiguration,
    parse_configuration,
)
from agentjobs_runtime.repo_files.service_files import ServiceFile

MAX_VALUES = 100
MAX_ENTRIES = 50
MAX_CHARACTERS = 300

_MESSAGE = re.compile(rf"(?s){re.escape(FILE_NAME)}(?:, line (\d+))?: (.*)")
# tomllib puts the line number into its message.
_TOML_LINE = re.compile(r"at line (\d+)")
_SHELL = ("sh", "-c")
_TABLES = ("fixes", "inventory")
_NOT_VALUES = ("agents", "environment", "services", "name", "warnings", *_TABLES)


class ConfigurationIssue(msgspec.Struct, frozen=True):
    """An error rejects the whole file, and jobs on the repository fail."""

    severity: Literal["error", "warning"]
    line: int | None
    reason: str


class ConfiguredValue(msgspec.Struct, frozen=True):
    """`agent` is empty for top-level keys; `entries` is empty for an empty list."""

    agent: str
    key: str
    entries: tuple[str, ...]


class ConfigurationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the head of the default branch; `values` is empty if the file has an error."""

    is_present: bool = False
    commit: str | None = None
    issues: tuple[ConfigurationIssue, ...] = ()
    values: tuple[ConfiguredValue, ...] = ()


async def configuration_status(root: Path, repo: RepoView) -> ConfigurationStatus:
    """Problems with the file and with the repository are both reported as issues."""
    try:
        git_dir = repositories.present_path(root, repo.id)
        commit = await resolve(git_dir, HEADS + repo.default_branch)
        if commit is None:
            return _error_status(None, f"the branch {repo.default_branch} is gone")
        return await _status(git_dir, commit)
    except Problem as problem:
        return _error_status(None, problem.message)
    except GitError as error:
        return _error_status(None, f"the repository cannot be read: {error.reason}")


async def _status(git_dir: Path, commit: str) -> ConfigurationStatus:
    try:
        content = await read_service_file(git_dir, commit, ServiceFile.CONFIGURATION, MAX_BYTES)
    except InvalidServiceFile as error:
        return _error_status(commit, str(error))
    if content is None:
        return ConfigurationStatus(commit=commit)
    return await asyncio.to_thread(_check_content, commit, content)


def _check_content(commit: str, content: bytes) -> ConfigurationStatus:
    try:
        configuration = parse_configuration(content)
    except ConfigurationError as error:
        return ConfigurationStatus(
            is_present=True, commit=commit, issues=(_parse_issue("error", str(error)),)
        )
    return ConfigurationStatus(
        is_present=True,
        commit=commit,
        issues=tuple(_parse_issue("warning", text) for text in configuration.warnings),
        values=tuple(_values(configuration))[:MAX_VALUES],
    )


def _error_status(commit: str | None, reason: str) -> ConfigurationStatus:
    """The existence of the file is unknown if there is no commit."""
    issue = ConfigurationIssue("error", None, _truncate(reason))
    return ConfigurationStatus(is_present=commit is not None, commit=commit, issues=(issue,))


def _parse_issue(severity: Literal["error", "warning"], text: str) -> ConfigurationIssue:
    match = _MESSAGE.fullmatch(text)
    line, reason = (match[1], match[2]) if match else (None, text)
    toml_line = _TOML_LINE.search(reason) if line is None else None
    number = line or (toml_line[1] if toml_line else None)
    return ConfigurationIssue(severity, int(number) if number else None, _truncate(reason))


def _values(configuration: Configuration) -> Iterator[ConfiguredValue]:
    yield from _list_values("", configuration)
    for table in _TABLES:
        yield from _list_values("", getattr(configuration, table), f"{table}.")
    if (environment := configuration.environment) is not None:
        yield from _list_values("", environment, "environment.")
        for service in environment.services:
            yield from _list_values("", service, f"environment.services.{service.name}.")
    for agent_id, own in configuration.agents.items():
        yield from _list_values(_truncate(agent_id), own)


def _list_values(
    agent: str,
    configuration: RunConfiguration
    | FixConfiguration
    | InventoryConfiguration
    | EnvironmentDefinition
    | ServiceDefinition,
    prefix: str = "",
) -> Iterator[ConfiguredValue]:
    """Only the keys that the file sets."""
    for field in msgspec.structs.fields(configuration):
        value = getattr(configuration, field.name)
        if field.name not in _NOT_VALUES and value not in (field.default, {}):
            yield ConfiguredValue(agent, prefix + field.name, _entries(field.name, value))


def _entries(key: str, value: Any) -> tuple[str, ...]:
    if key == "verify":
        is_script = value[: len(_SHELL)] == _SHELL and len(value) == len(_SHELL) + 1
        command = value[-1] if is_script else shlex.join(value)
        return (_truncate(command),) if command else ()
    if isinstance(value, Mapping):
        value = tuple(f"{name}={text}" for name, text in value.items())
    if isinstance(value, tuple):
        return tuple(map(_truncate, value[:MAX_ENTRIES]))
    return ("true" if value else "false",) if isinstance(value, bool) else (_truncate(str(value)),)


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
