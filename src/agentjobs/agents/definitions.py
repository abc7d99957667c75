"""What an agent is: a command and its bounds. Knows nothing of callers, plans' ranks or jobs."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from agentjobs.gateway.upstream import Api
from agentjobs.repos.configuration import OnVerifyFailure
from agentjobs.sandbox.limits import Limits


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Which model API an agent calls, through the gateway and with which secret's key.

    `url` is the provider's base address without `/v1`. `name` is the model it shall use, empty
    for its own default; `names` are those it may use, `*` in them stands for anything.
    """

    api: Api
    url: str
    secret: str
    name: str = ""
    names: tuple[str, ...] = ("*",)


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent type. `read_only` are files of the machine it sees, at the same path, beside the
    system's; `verify_files` those that its verification sees."""

    id: str
    name: str
    plan_required: str
    command: tuple[str, ...]
    timeout_seconds: float
    environment: Mapping[str, str] = {}
    network: tuple[str, ...] = ()
    read_only: tuple[Path, ...] = ()
    limits: Limits = Limits()
    model: ModelAccess | None = None
    max_cost_usd: float | None = None
    verify: tuple[str, ...] = ()
    verify_files: tuple[Path, ...] = ()
    on_verify_failure: OnVerifyFailure = "draft"
    # Of the built-in fixer: the package managers of the worker are shown to it.
    uses_package_managers: bool = False
    # Of a preset: `command` is made on the worker, from where its program is installed there.
    preset: str | None = None
    executable: str = ""
    arguments: tuple[str, ...] = ()


def named_files(command: Iterable[str]) -> tuple[Path, ...]:
    """Files a command names by their absolute path: naming one is the consent to show it.

    Only files, never a directory: `/` in a command must not open the machine.
    """
    paths = (Path(word) for word in command if word.startswith("/"))
    return tuple(path for path in paths if path.is_file())
