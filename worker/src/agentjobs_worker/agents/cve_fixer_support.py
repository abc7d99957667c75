"""The agent `cve-fixer` as the service needs it: which files it can edit, and where the package
managers that it runs are installed. Runs none of them.
"""

import contextlib
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_worker.agents import installation

# Read by `agentjobs_dependencies/fixes/run_tool.py`, which imports nothing of the service.
TOOLS_VARIABLE = "AGENTJOBS_FIXER_TOOLS"

# npm also installs pnpm and yarn in the releases that wrote a lock file.
TOOL_NAMES = ("uv", "poetry", "node", "npm", "pnpm", "go", "cargo")


class FixerTools(msgspec.Struct, frozen=True, kw_only=True):
    """`commands` maps each installed tool to its argv. What needs the others is not fixed."""

    commands: dict[str, tuple[str, ...]]
    read_only: tuple[Path, ...]

    @property
    def environment(self) -> dict[str, str]:
        return {TOOLS_VARIABLE: msgspec.json.encode(self.commands).decode()}


def with_package_managers(agent: Agent) -> Agent:
    """Add the package managers of this worker to an agent that runs them."""
    if not agent.uses_package_managers:
        return agent
    tools = find_fixer_tools()
    return msgspec.structs.replace(
        agent,
        environment={**agent.environment, **tools.environment},
        read_only=tuple(_outermost_paths({*agent.read_only, *tools.read_only})),
    )


def find_fixer_tools(path: str | None = None) -> FixerTools:
    """`path` replaces this process's PATH."""
    commands: dict[str, tuple[str, ...]] = {}
    read_only: set[Path] = set()
    for name in TOOL_NAMES:
        # Circular links, an invalid path, or a script without Node.js.
        with contextlib.suppress(OSError, RuntimeError, ValueError, installation.NotInstalled):
            tool = _find_tool(name, path)
            if tool is not None:
                commands[name] = tool.program
                read_only.update(tool.read_only)
    return FixerTools(commands=commands, read_only=tuple(_outermost_paths(read_only)))


def _find_tool(name: str, path: str | None) -> installation.Installation | None:
    beside_python = Path(sys.executable).with_name(name)
    # The service depends on uv and was tested with the one installed next to it.
    is_own = name == "uv" and beside_python.is_file()
    executable = str(beside_python) if is_own else shutil.which(name, path=path)
    if executable is None:
        return None
    program = Path(executable).resolve()
    if name == "cargo" and program.name == "rustup":
        program = _cargo_of_rustup(Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup"))
    if name in ("go", "cargo"):
        # The standard library and other tools are beside the command.
        return installation.Installation(
            path=program, program=(str(program),), read_only=(program.parent.parent,)
        )
    if name in ("uv", "node"):
        return installation.Installation(
            path=program, program=(str(program),), read_only=(program,)
        )
    return installation.inspect_installation(program)


def _cargo_of_rustup(home: Path) -> Path:
    """The cargo of the default toolchain: rustup itself would look for its settings."""
    try:
        settings = tomllib.loads((home / "settings.toml").read_text())
        program = home / "toolchains" / str(settings["default_toolchain"]) / "bin" / "cargo"
    except KeyError:
        raise installation.NotInstalled("rustup has no default toolchain") from None
    if not program.is_file():
        raise installation.NotInstalled(f"{program} does not exist")
    return program.resolve()


def _outermost_paths(paths: set[Path]) -> Iterator[Path]:
    return (path for path in sorted(paths) if not paths & set(path.parents))
