"""Whether this machine can run an agent, and what to type if it cannot."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import msgspec

from agentjobs.agents.definitions import Agent
from agentjobs.agents.installation import Installation, NotInstalled, find_installation
from agentjobs.agents.presets.all_presets import PRESETS
from agentjobs.agents.presets.preset import Preset
from agentjobs.sandbox import mounts

WITHIN_SECONDS = 10
# A machine that was too busy to answer is asked again.
FAILURE_KEPT_SECONDS = 60

# Of numbers that are some: `int` refuses thousands of digits.
_VERSION = re.compile(r"(?<!\d)\d{1,18}(?:\.\d{1,18})+(?!\d)")
_OF_DISTRIBUTION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


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


class Versions:
    """Remembers answers by the program's path and time of change."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[str | None, float]] = {}

    async def of(self, preset: Preset, installation: Installation) -> str | None:
        """None when the program does not say. Raises OSError when it cannot be asked."""
        key = (str(installation.path), installation.path.stat().st_mtime_ns)
        known = self._known.get(key)
        if known is not None and (known[0] or time.monotonic() - known[1] < FAILURE_KEPT_SECONDS):
            return known[0]
        version = await asyncio.to_thread(_ask, _question(preset, installation), preset)
        self._known[key] = (version, time.monotonic())
        return version


def is_older(version: str, oldest: str) -> bool:
    return _numbers(version) < _numbers(oldest)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _question(preset: Preset, installation: Installation) -> tuple[str, ...]:
    if preset.distribution and len(installation.program) > 1:
        # The package's own words take seconds of imports.
        return (installation.program[0], "-I", "-c", _OF_DISTRIBUTION, preset.distribution)
    return (*installation.program, "--version")


def _ask(question: tuple[str, ...], preset: Preset) -> str | None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environment = {
            **preset.environment,
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": home,
            "TMPDIR": home,
        }
        with subprocess.Popen(
            question,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=environment,
            start_new_session=True,
        ) as process:
            answer = _answer_of(process)
    found = _VERSION.search(answer.decode(errors="replace"))
    return found[0] if found and process.returncode == 0 else None


def _answer_of(process: subprocess.Popen[bytes]) -> bytes:
    try:
        return process.communicate(timeout=WITHIN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        # With all it started: what outlives it would hold its output open.
        os.killpg(process.pid, signal.SIGKILL)
        return b""


_VERSIONS = Versions()
