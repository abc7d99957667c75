"""The demo's service: `agentjobs up` in a child process, and commands on its store."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentjobs.cli.output import print_note
from agentjobs_runtime.problems import Problem

_PROGRAM = (sys.executable, "-m", "agentjobs.cli.main")
_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_SHOWN_LOG_LINES = 5
_WARNING_OR_WORSE = re.compile(r'"level":"(?:warning|error|critical)"')


class DemoFailed(Problem):
    """A step of the demo failed."""

    def __init__(self, message: str) -> None:
        super().__init__("demo_failed", message)


class DemoService:
    def __init__(self, data_dir: Path, base_url: str) -> None:
        self.data_dir = data_dir
        self.base_url = base_url

    async def command(self, *arguments: str) -> str:
        """Runs an administrative command on the service's store and returns its output."""
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            *arguments,
            f"--data-dir={self.data_dir}",
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        finally:
            await _stop(process)
        if process.returncode != 0:
            raise DemoFailed(f"`agentjobs {' '.join(arguments)}`: {errors.decode().strip()}")
        return output.decode("utf-8", "replace").strip("\n")


@asynccontextmanager
async def running_service(data_dir: Path) -> AsyncIterator[DemoService]:
    log = data_dir.with_name("service.log")
    with log.open("wb") as log_file:
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            "up",
            f"--data-dir={data_dir}",
            "--host=127.0.0.1",
            "--port=0",
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log_file,
            # Ctrl-C reaches only the demo, which then stops the service.
            start_new_session=True,
        )
    try:
        yield DemoService(data_dir, await _base_url(process))
    except Exception:
        for line in _errors_in_log(log):
            print_note(line)
        raise
    finally:
        await _stop(process)


async def _base_url(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        raise DemoFailed("the service did not start")
    return line.decode().strip()


def _errors_in_log(log: Path) -> list[str]:
    """The last warnings and errors of the service, whose log is deleted with the demo."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [
        line for line in lines if line.startswith("agentjobs: ") or _WARNING_OR_WORSE.search(line)
    ]
    return errors[-_SHOWN_LOG_LINES:]


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _environment() -> dict[str, str]:
    """Removes the settings of another service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AGENTJOBS_")}
