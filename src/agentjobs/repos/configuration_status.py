"""What a repository's page tells of its `.agentjobs.toml`: is it there, what is wrong, what holds.

Everything in it was written by strangers: it is bounded here, and escaped by whoever shows it.
"""

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from agentjobs.git.blobs import blob_sizes
from agentjobs.git.process import GitError, git
from agentjobs.git.refs import HEADS, resolve
from agentjobs.git.trees import REGULAR
from agentjobs.local_git import repositories
from agentjobs.problems import Problem
from agentjobs.repos.configuration import (
    FILE_NAME,
    MAX_BYTES,
    Configuration,
    ConfigurationError,
    RunConfiguration,
    parse_configuration,
)
from agentjobs.repos.queries import RepoView

MAX_VALUES = 100
MAX_ENTRIES = 50
MAX_CHARACTERS = 300

_MESSAGE = re.compile(rf"(?s){re.escape(FILE_NAME)}(?:, line (\d+))?: (.*)")
# The parser of TOML tells the line in its own words.
_LINE_INSIDE = re.compile(r"at line (\d+)")
_SHELL = ("sh", "-c")
_NOT_VALUES = ("agents", "warnings")


class Finding(msgspec.Struct, frozen=True):
    """With an error the whole file is refused, and jobs on the repository fail."""

    severity: Literal["error", "warning"]
    line: int | None
    reason: str


class ConfiguredValue(msgspec.Struct, frozen=True):
    """`agent` is empty for what holds for all; `entries` is empty for an empty list."""

    agent: str
    key: str
    entries: tuple[str, ...]


class ConfigurationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Of the head of the default branch; `values` only for a file without an error."""

    is_present: bool = False
    commit: str | None = None
    findings: tuple[Finding, ...] = ()
    values: tuple[ConfiguredValue, ...] = ()

    @property
    def has_error(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


async def configuration_status(data_path: Path, repo: RepoView) -> ConfigurationStatus:
    """Whatever is wrong, with the file or with the repository, is a finding."""
    try:
        git_dir = repositories.present_path(data_path, repo.id)
        commit = await resolve(git_dir, HEADS + repo.default_branch)
        if commit is None:
            return _faulty(None, f"the branch {repo.default_branch} is gone")
        return await _status(git_dir, commit)
    except Problem as problem:
        return _faulty(None, problem.message)
    except GitError as error:
        return _faulty(None, f"the repository cannot be read: {error.reason}")


async def _status(git_dir: Path, commit: str) -> ConfigurationStatus:
    listed = await git("ls-tree", "-z", "--full-tree", commit, FILE_NAME, git_dir=git_dir)
    if not listed.stdout:
        return ConfigurationStatus(commit=commit)
    mode, _, object_id = listed.stdout.partition(b"\t")[0].decode("ascii").split(" ")
    if mode not in REGULAR:
        return _faulty(commit, "must be a file, neither a link nor a submodule")
    if (await blob_sizes(git_dir, [object_id]))[0] > MAX_BYTES:
        return _faulty(commit, f"is larger than {MAX_BYTES // 1024} KiB")
    content = await git("cat-file", "blob", object_id, git_dir=git_dir)
    return await asyncio.to_thread(_judged, commit, content.stdout)


def _judged(commit: str, content: bytes) -> ConfigurationStatus:
    try:
        configuration = parse_configuration(content)
    except ConfigurationError as error:
        return ConfigurationStatus(
            is_present=True, commit=commit, findings=(_finding("error", str(error)),)
        )
    return ConfigurationStatus(
        is_present=True,
        commit=commit,
        findings=tuple(_finding("warning", text) for text in configuration.warnings),
        values=tuple(_values(configuration))[:MAX_VALUES],
    )


def _faulty(commit: str | None, reason: str) -> ConfigurationStatus:
    """Without a commit nobody knows whether the file is there."""
    finding = Finding("error", None, _bounded(reason))
    return ConfigurationStatus(is_present=commit is not None, commit=commit, findings=(finding,))


def _finding(severity: Literal["error", "warning"], text: str) -> Finding:
    found = _MESSAGE.fullmatch(text)
    line, reason = (found[1], found[2]) if found else (None, text)
    inside = _LINE_INSIDE.search(reason) if line is None else None
    number = line or (inside[1] if inside else None)
    return Finding(severity, int(number) if number else None, _bounded(reason))


def _values(configuration: Configuration) -> Iterator[ConfiguredValue]:
    yield from _values_of("", configuration)
    for agent_id, own in configuration.agents.items():
        yield from _values_of(_bounded(agent_id), own)


def _values_of(agent: str, holds: RunConfiguration) -> Iterator[ConfiguredValue]:
    """What the file says; what it does not say is left out."""
    for field in msgspec.structs.fields(holds):
        value = getattr(holds, field.name)
        if field.name not in _NOT_VALUES and value != field.default:
            yield ConfiguredValue(agent, field.name, _entries(field.name, value))


def _entries(key: str, value: Any) -> tuple[str, ...]:
    if key == "verify":
        is_script = value[: len(_SHELL)] == _SHELL and len(value) == len(_SHELL) + 1
        command = value[-1] if is_script else shlex.join(value)
        return (_bounded(command),) if command else ()
    if isinstance(value, tuple):
        return tuple(map(_bounded, value[:MAX_ENTRIES]))
    return ("true" if value else "false",) if isinstance(value, bool) else (_bounded(str(value)),)


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
