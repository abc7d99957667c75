"""Whether this machine can run an agent, and what to type if it cannot."""

import os
import shutil

import msgspec

from agentjobs.agents.definitions import Agent
from agentjobs.agents.installation import Installation, NotInstalled, find_installation
from agentjobs.agents.presets.all_presets import PRESETS
from agentjobs.agents.presets.preset import Preset
from agentjobs.agents.versions import Versions, is_older
from agentjobs.sandbox import mounts

_VERSIONS = Versions()


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is None when it can run; else it says what to do."""

    agent: str
    installed: bool
    version: str | None = None
    reason: str | None = None


async def readiness_of(agent: Agent, *, in_sandbox: bool = True) -> Readiness:
    """Cheap enough for every heartbeat: versions are kept. `in_sandbox` is False where agents run
    without one, and so find their programs where the worker does."""
    if agent.preset is None:
        reason = _why_not_a_program(agent, in_sandbox=in_sandbox)
        return Readiness(agent=agent.id, installed=reason is None, reason=reason)
    preset = PRESETS[agent.preset]
    try:
        installation = find_installation(preset, agent.executable)
    except NotInstalled as error:
        return Readiness(agent=agent.id, installed=False, reason=str(error))
    version, reason = await _version_of(preset, installation)
    return Readiness(agent=agent.id, installed=True, version=version, reason=reason)


async def _version_of(preset: Preset, installation: Installation) -> tuple[str | None, str | None]:
    """The version, and what is wrong with it."""
    try:
        version = await _VERSIONS.of(preset, installation)
    except OSError as error:
        return None, (
            f"{installation.path} cannot be asked for its version ({error}): mend that, or install "
            f"it again, `{preset.install_with}`"
        )
    return version, _why_not_this_version(preset, version, str(installation.path))


def _why_not_this_version(preset: Preset, version: str | None, path: str) -> str | None:
    if version is None:
        return f"{path} does not say its version: install it again, `{preset.install_with}`"
    if is_older(version, preset.oldest_version):
        return (
            f"{path} is version {version}, and {preset.oldest_version} or newer is needed: run "
            f"`{preset.install_with}`"
        )
    return None


def _why_not_a_program(agent: Agent, *, in_sandbox: bool) -> str | None:
    program = agent.command[0]
    if "/" in program and not program.startswith("/"):
        # Beside the agent, in a repository: nobody knows before there is a job.
        return None
    own_path = mounts.PATH if in_sandbox else os.environ.get("PATH", os.defpath)
    if shutil.which(program, path=agent.environment.get("PATH", own_path)):
        return None
    if program.startswith("/"):
        return f"`{program}` is no program on this worker: install it, or correct `command`"
    return (
        f"`{program}` is not on the PATH of agents: install it for the whole machine, or name it "
        "with its whole path in `command`"
    )
