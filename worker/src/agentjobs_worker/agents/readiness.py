"""Whether this machine can run an agent, and how to fix it if not."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.installation import Installation, NotInstalled, find_installation
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.agents.presets.all_presets import PRESETS
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.sandbox import mounts
from agentjobs_worker.sandbox.factory import open_trial_pods

VERSION_TIMEOUT_SECONDS = 10

# Bounded, because `int` refuses thousands of digits.
_VERSION = re.compile(r"(?<!\d)\d{1,18}(?:\.\d{1,18})+(?!\d)")
_DISTRIBUTION_VERSION = (
    "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
)
# The user of the command waits for it.
_MAX_POD_SECONDS = 120.0


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is None if the agent can run; otherwise it says how to fix it."""

    agent: str
    installed: bool
    version: str | None = None
    reason: str | None = None


async def check_agents(
    agents: Sequence[Agent], *, in_sandbox: bool = True, image: PodPrograms | None = None
) -> list[Readiness]:
    """`image` has the programs of agents, if they run in pods."""
    if image is None:
        return [await check_readiness(agent, in_sandbox=in_sandbox) for agent in agents]
    await image.ask(agents)
    reasons = [(agent.id, image.problem(agent)) for agent in agents]
    return [
        Readiness(agent=agent_id, installed=reason is None, reason=reason)
        for agent_id, reason in reasons
    ]


async def check_readiness(agent: Agent, *, in_sandbox: bool = True) -> Readiness:
    """Cheap enough for every heartbeat, because versions are cached. `in_sandbox` is False if
    agents run without one and use the worker's PATH."""
    if agent.preset is None:
        reason = _program_problem(agent, in_sandbox=in_sandbox)
        return Readiness(agent=agent.id, installed=reason is None, reason=reason)
    preset = PRESETS[agent.preset]
    try:
        installation = find_installation(preset, agent.executable)
    except NotInstalled as error:
        return Readiness(agent=agent.id, installed=False, reason=str(error))
    version, reason = await _check_version(preset, installation)
    return Readiness(agent=agent.id, installed=True, version=version, reason=reason)


async def _check_version(
    preset: Preset, installation: Installation
) -> tuple[str | None, str | None]:
    """The version, and why it cannot be used."""
    try:
        version = await _VERSIONS.find(preset, installation)
    except OSError as error:
        return None, (
            f"the version of {installation.path} cannot be read ({error}): fix that, or reinstall "
            f"it with `{preset.install_with}`"
        )
    return version, _version_problem(preset, version, str(installation.path))


def _version_problem(preset: Preset, version: str | None, path: str) -> str | None:
    if version is None:
        return f"{path} does not report its version: reinstall it with `{preset.install_with}`"
    if is_older(version, preset.min_version):
        return (
            f"{path} is version {version}, and {preset.min_version} or newer is needed: run "
            f"`{preset.install_with}`"
        )
    return None


def _program_problem(agent: Agent, *, in_sandbox: bool) -> str | None:
    program = agent.command[0]
    if "/" in program and not program.startswith("/"):
        # A relative path is in the repository, which is unknown before there is a job.
        return None
    default_path = mounts.PATH if in_sandbox else os.environ.get("PATH", os.defpath)
    if shutil.which(program, path=agent.environment.get("PATH", default_path)):
        return None
    if program.startswith("/"):
        return f"`{program}` is not a program on this worker: install it, or correct `command`"
    return (
        f"`{program}` is not on the PATH of agents: install it system-wide, or use its "
        "absolute path in `command`"
    )


class Versions:
    """Caches versions by the program's path and modification time.

    Runs the program outside the sandbox, with an empty environment and a timeout.
    """

    def __init__(self) -> None:
        self._cache: dict[tuple[str, int], str] = {}

    async def find(self, preset: Preset, installation: Installation) -> str | None:
        """None if the program does not report it. Raises OSError if it cannot be run."""
        key = (str(installation.path), installation.path.stat().st_mtime_ns)
        if key not in self._cache:
            version = await asyncio.to_thread(
                _run_version_command, _version_command(preset, installation), preset
            )
            # The machine may have been too busy: a failure is not kept.
            if version is None:
                return None
            self._cache[key] = version
        return self._cache[key]


def is_older(version: str, minimum: str) -> bool:
    return _numbers(version) < _numbers(minimum)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _version_command(preset: Preset, installation: Installation) -> tuple[str, ...]:
    if preset.distribution and len(installation.program) > 1:
        # Asking the program itself would take seconds of imports.
        return (installation.program[0], "-I", "-c", _DISTRIBUTION_VERSION, preset.distribution)
    return (*installation.program, "--version")


def _run_version_command(command: tuple[str, ...], preset: Preset) -> str | None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environment = {
            **preset.environment,
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": home,
            "TMPDIR": home,
        }
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=environment,
            start_new_session=True,
        ) as process:
            output = _read_output(process)
    match = _VERSION.search(output.decode(errors="replace"))
    return match[0] if match and process.returncode == 0 else None


def _read_output(process: subprocess.Popen[bytes]) -> bytes:
    try:
        return process.communicate(timeout=VERSION_TIMEOUT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        # Includes its children, which would keep its output open.
        os.killpg(process.pid, signal.SIGKILL)
        return b""


_VERSIONS = Versions()


async def check_installed(settings: Settings, agents: Sequence[Agent]) -> list[Readiness]:
    """Whether agents can run on this machine, or in the image of pods."""
    if not settings.uses_kubernetes:
        return await check_agents(agents, in_sandbox=settings.has_sandbox)
    try:
        async with asyncio.timeout(_MAX_POD_SECONDS), open_trial_pods(settings) as sandbox:
            image = PodPrograms(sandbox, settings.effective_kubernetes_image)
            return await check_agents(agents, image=image)
    except TimeoutError:
        reason = f"no pod ran within {_MAX_POD_SECONDS:g} seconds: see `agentjobs doctor`"
        return [Readiness(agent=agent.id, installed=False, reason=reason) for agent in agents]
