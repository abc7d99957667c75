"""The package managers that the agent `cve-fixer` drives: where they are on this machine, what of
them the sandbox must show, and what is missing. Runs none of them.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agentjobs.agents import installation
from agentjobs.agents.definitions import Agent
from cve_fixer.fix import fixer_for

CVE_FIXER = "cve-fixer"

# Read by `cve_fixer/run_tool.py`, which imports nothing of the service.
TOOLS_VARIABLE = "AGENTJOBS_FIXER_TOOLS"

# What cannot be fixed without one, and how to get it.
_TOOLS: Mapping[str, tuple[str, str]] = {
    "uv": ("uv.lock files and compiled requirements", "pip install uv"),
    "poetry": ("poetry.lock files", "pipx install poetry"),
    "node": ("files of npm and pnpm", "apt install nodejs"),
    "npm": ("package-lock.json files", "apt install npm"),
    "pnpm": ("pnpm-lock.yaml files", "npm install --global pnpm"),
}


class FixerTools(msgspec.Struct, frozen=True, kw_only=True):
    """`commands` are the words that start each tool that is here; `missing` says, for each that is
    not, what to do about it."""

    commands: dict[str, tuple[str, ...]]
    read_only: tuple[Path, ...]
    missing: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        return {TOOLS_VARIABLE: msgspec.json.encode(self.commands).decode()}


def can_fix(ecosystem: str, manifest: str) -> bool:
    return fixer_for(ecosystem, manifest) is not None


def with_package_managers(agent: Agent) -> Agent:
    """As they are installed on this worker, for the agent that drives them."""
    if not agent.uses_package_managers:
        return agent
    tools = find_fixer_tools()
    return msgspec.structs.replace(
        agent,
        environment={**agent.environment, **tools.environment},
        read_only=tuple(_outermost({*agent.read_only, *tools.read_only})),
    )


def find_fixer_tools(path: str | None = None) -> FixerTools:
    """`path` instead of this process's PATH."""
    commands: dict[str, tuple[str, ...]] = {}
    read_only: set[Path] = set()
    missing: dict[str, str] = {}
    for name, (purpose, install_with) in _TOOLS.items():
        try:
            found = _installed(name, path)
        # Of links in a circle, of a path that is none, of a script whose Node.js is gone.
        except (OSError, RuntimeError, ValueError, installation.NotInstalled) as error:
            missing[name] = f"`{name}` cannot be used ({error}): {purpose} stay as they are"
            continue
        if found is None:
            missing[name] = (
                f"`{name}` is not on this worker's PATH: {purpose} stay as they are until you run "
                f"`{install_with}`"
            )
            continue
        commands[name] = found.program
        read_only.update(found.read_only)
    return FixerTools(commands=commands, read_only=tuple(_outermost(read_only)), missing=missing)


def _installed(name: str, path: str | None) -> installation.Installation | None:
    beside_python = Path(sys.executable).with_name(name)
    # The service depends on uv: the one beside it is the one it was tested with.
    is_own = name == "uv" and beside_python.is_file()
    found = str(beside_python) if is_own else shutil.which(name, path=path)
    if found is None:
        return None
    program = Path(found).resolve()
    if name in ("uv", "node"):
        return installation.Installation(
            path=program, program=(str(program),), read_only=(program,)
        )
    return installation.installation_at(program)


def _outermost(paths: set[Path]) -> Iterator[Path]:
    return (path for path in sorted(paths) if not paths & set(path.parents))
