"""The built-in agents, and the parts of the service's Python that they may see."""

import sys
from pathlib import Path

import msgspec

import agentjobs_dependencies
from agentjobs_dependencies import fixes
from agentjobs_runtime.agents.definitions import CVE_FIXER, Agent
from agentjobs_runtime.outbound.guard.host_patterns import is_pattern
from agentjobs_runtime.outbound.registry_hosts import hosts_for
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.registries import ECOSYSTEMS
from agentjobs_worker.agents.pod_programs import PYTHON

_LINT_FIXER_MODULE = "agentjobs_worker.agents.builtin.lint_fixer"
_LINT_FIXER = Path(__file__).parent / "builtin" / "lint_fixer.py"
# The working directory is untrusted and must not provide modules.
_ISOLATED = ("-I", "-u")
# A separate program: the sandbox shows its distribution and nothing of the service.
CVE_FIXER_DIRECTORY = Path(fixes.__path__[0])
_DEPENDENCIES_DIRECTORY = Path(agentjobs_dependencies.__path__[0])


def builtin_agents(settings: Settings, limits: Limits) -> tuple[Agent, ...]:
    in_image = settings.uses_kubernetes
    lint_fixer = Agent(
        id="lint-fixer",
        name="Lint fixer",
        plan_required=settings.plans[0].name,
        command=_in_image(_LINT_FIXER_MODULE) if in_image else _on_worker(_LINT_FIXER),
        timeout_seconds=3600,
        read_only=() if in_image else python_files(),
        limits=limits,
        uses_environment=False,
    )
    script = CVE_FIXER_DIRECTORY / "__main__.py"
    return (
        msgspec.structs.replace(
            lint_fixer, description="Fixes and formats Python files with ruff."
        ),
        msgspec.structs.replace(
            lint_fixer,
            id=CVE_FIXER,
            name="CVE fixer",
            command=_in_image(fixes.__name__) if in_image else _on_worker(script),
            description="Upgrades packages with known vulnerabilities to safe versions.",
            network=_registry_hosts(settings),
            uses_package_managers=True,
        ),
    )


def _registry_hosts(settings: Settings) -> tuple[str, ...]:
    """The hosts that a sandbox can reach, so none on localhost."""
    hosts = (host for ecosystem in ECOSYSTEMS for host in hosts_for(settings, ecosystem))
    return tuple(host for host in dict.fromkeys(hosts) if is_pattern(host))


def _on_worker(script: Path) -> tuple[str, ...]:
    return (sys.executable, *_ISOLATED, str(script))


def _in_image(module: str) -> tuple[str, ...]:
    """The image may be another build, with modules in another place."""
    return (PYTHON, *_ISOLATED, "-m", module)


def python_files() -> tuple[Path, ...]:
    """The directories of this Python and the scripts.

    The interpreter of a virtual environment is a link into its base, which may be a link too.
    """
    paths = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.base_prefix).resolve(),
        Path(sys.executable).resolve(),
        _LINT_FIXER.parent,
        _DEPENDENCIES_DIRECTORY,
    }
    return tuple(sorted(path for path in paths if not paths & set(path.parents)))
