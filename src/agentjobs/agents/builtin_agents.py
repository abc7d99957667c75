"""The agents that come with the service, and what of its Python they may see."""

import sys
from pathlib import Path

from agentjobs.agents.definitions import Agent
from agentjobs.sandbox.limits import Limits

BUILTIN_DIRECTORY = Path(__file__).parent / "builtin"


def builtin_agents(plan_required: str, limits: Limits) -> tuple[Agent, ...]:
    return (_python_agent("lint-fixer", "Lint fixer", "lint_fixer.py", plan_required, limits),)


def _python_agent(id: str, name: str, script: str, plan_required: str, limits: Limits) -> Agent:
    return Agent(
        id=id,
        name=name,
        plan_required=plan_required,
        # Isolated: the working directory is a stranger's, no module may come from it.
        command=(sys.executable, "-I", "-u", str(BUILTIN_DIRECTORY / script)),
        timeout_seconds=3600,
        read_only=python_files(),
        limits=limits,
    )


def python_files() -> tuple[Path, ...]:
    """This Python's directories and the scripts.

    The interpreter of a virtual environment is a link into its base, and that may be one too.
    """
    needed = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.base_prefix).resolve(),
        Path(sys.executable).resolve(),
        BUILTIN_DIRECTORY,
    }
    return tuple(sorted(path for path in needed if not needed & set(path.parents)))
