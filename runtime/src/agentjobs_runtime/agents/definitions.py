"""What an agent is: a command and its limits. Knows nothing of callers, plans or jobs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_runtime.upstream import Api

ResultKind = Literal["pull_request", "report"]
# What follows if a check of the change fails.
OnVerifyFailure = Literal["draft", "fail"]
CVE_FIXER = "cve-fixer"


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Which model API an agent calls through the gateway, with the key of which secret.

    `url` is the provider's base address without `/v1`. `name` is the model to use, empty for the
    agent's default; `names` are those it may use, where `*` matches anything.
    """

    api: Api
    url: str
    secret: str
    name: str = ""
    names: tuple[str, ...] = ("*",)


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent type. `read_only` are files of the machine that it sees at the same path, besides
    the system's; `verify_files` are those that its verification sees. Only workers with all of
    `tags` run it; `max_concurrent_jobs` limits its jobs on all workers together."""

    id: str
    name: str
    plan_required: str
    command: tuple[str, ...]
    timeout_seconds: float
    # A sentence for people who choose an agent; may be empty.
    description: str = ""
    tags: tuple[str, ...] = ()
    max_concurrent_jobs: int | None = None
    environment: Mapping[str, str] = {}
    network: tuple[str, ...] = ()
    read_only: tuple[Path, ...] = ()
    limits: Limits = Limits()
    placement: Placement = Placement()
    model: ModelAccess | None = None
    max_cost_usd: float | None = None
    verify: tuple[str, ...] = ()
    verify_files: tuple[Path, ...] = ()
    on_verify_failure: OnVerifyFailure = "draft"
    # What a job of this agent completes with.
    result: ResultKind = "pull_request"
    # A JSON Schema, for `report` only.
    result_schema: dict[str, Any] | None = None
    # Only the built-in fixer sees the worker's package managers.
    uses_package_managers: bool = False
    # Built-in agents bring their own tools, and only their checks run in the environment.
    uses_environment: bool = True
    # For presets, the worker builds `command` from where the program is installed.
    preset: str | None = None
    executable: str = ""
    arguments: tuple[str, ...] = ()


def named_files(command: Iterable[str]) -> tuple[Path, ...]:
    """Files that a command names by absolute path, which the sandbox then shows.

    Only files, never directories: `/` in a command must not expose the machine.
    """
    paths = (Path(word) for word in command if word.startswith("/"))
    return tuple(path for path in paths if path.is_file())
