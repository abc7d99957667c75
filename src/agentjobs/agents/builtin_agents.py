"""The agents that come with the service, and what of its Python they may see."""

import sys
from pathlib import Path

import msgspec

from agentjobs.advisories.registries.hosts import hosts_of
from agentjobs.agents.definitions import Agent
from agentjobs.agents.fixable import CVE_FIXER
from agentjobs.outbound.patterns import is_pattern
from agentjobs.sandbox.limits import Limits
from agentjobs.settings import Settings
from agentjobs.settings.registries import ECOSYSTEMS

BUILTIN_DIRECTORY = Path(__file__).parent / "builtin"


def builtin_agents(settings: Settings, limits: Limits) -> tuple[Agent, ...]:
    plan_required = settings.plans[0].name
    lint_fixer = _python_agent("lint-fixer", "Lint fixer", "lint_fixer.py", plan_required, limits)
    cve_fixer = _python_agent(
        CVE_FIXER, "CVE fixer", "cve_fixer/__main__.py", plan_required, limits
    )
    return lint_fixer, msgspec.structs.replace(
        cve_fixer, network=_registry_hosts(settings), uses_package_managers=True
    )


def _registry_hosts(settings: Settings) -> tuple[str, ...]:
    """Those that can be reached from inside a sandbox at all, where nothing is on localhost."""
    hosts = (host for ecosystem in ECOSYSTEMS for host in hosts_of(settings, ecosystem))
    return tuple(host for host in dict.fromkeys(hosts) if is_pattern(host))


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
