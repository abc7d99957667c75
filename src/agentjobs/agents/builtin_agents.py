"""The agents that come with the service, and what of its Python they may see."""

import sys
from pathlib import Path

import msgspec

import cve_fixer
from agentjobs.advisories.registries.hosts import hosts_of
from agentjobs.agents.cve_fixer_support import CVE_FIXER
from agentjobs.agents.definitions import Agent
from agentjobs.outbound.guard.host_patterns import is_pattern
from agentjobs.sandbox.limits import Limits
from agentjobs.settings import Settings
from agentjobs.settings.registries import ECOSYSTEMS

_LINT_FIXER = Path(__file__).parent / "builtin" / "lint_fixer.py"
# A program of its own: the sandbox sees its directory and nothing else of the service.
CVE_FIXER_DIRECTORY = Path(cve_fixer.__path__[0])


def builtin_agents(settings: Settings, limits: Limits) -> tuple[Agent, ...]:
    plan_required = settings.plans[0].name
    lint_fixer = _python_agent("lint-fixer", "Lint fixer", _LINT_FIXER, plan_required, limits)
    script = CVE_FIXER_DIRECTORY / "__main__.py"
    cve_fixer_agent = _python_agent(CVE_FIXER, "CVE fixer", script, plan_required, limits)
    return lint_fixer, msgspec.structs.replace(
        cve_fixer_agent, network=_registry_hosts(settings), uses_package_managers=True
    )


def _registry_hosts(settings: Settings) -> tuple[str, ...]:
    """Those that can be reached from inside a sandbox at all, where nothing is on localhost."""
    hosts = (host for ecosystem in ECOSYSTEMS for host in hosts_of(settings, ecosystem))
    return tuple(host for host in dict.fromkeys(hosts) if is_pattern(host))


def _python_agent(id: str, name: str, script: Path, plan_required: str, limits: Limits) -> Agent:
    return Agent(
        id=id,
        name=name,
        plan_required=plan_required,
        # Isolated: the working directory is a stranger's, no module may come from it.
        command=(sys.executable, "-I", "-u", str(script)),
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
        _LINT_FIXER.parent,
        CVE_FIXER_DIRECTORY,
    }
    return tuple(sorted(path for path in needed if not needed & set(path.parents)))
