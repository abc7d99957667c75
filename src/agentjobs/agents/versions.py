"""Asks an installed program for its version: outside the sandbox, with an environment of nothing,
and not for long. The answer is kept until the program's file changes."""

import asyncio
import os
import re
import signal
import subprocess
import tempfile
import time

from agentjobs.agents.installation import Installation
from agentjobs.agents.presets.preset import Preset

WITHIN_SECONDS = 10
# A machine that was too busy to answer is asked again.
FAILURE_KEPT_SECONDS = 60

# Of numbers that are some: `int` refuses thousands of digits.
_VERSION = re.compile(r"(?<!\d)\d{1,18}(?:\.\d{1,18})+(?!\d)")
_OF_DISTRIBUTION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


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
