"""Runs git commands with a hardened environment and a timeout, and leaves no process running.

Knows nothing of what a command means; other modules of this package do.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from agentjobs_runtime.git.child import GitChild
from agentjobs_runtime.git.environment import GitOptions, git_environment
from agentjobs_runtime.git.limits import explain_limit, limit_resources
from agentjobs_runtime.git.remote import strip_credentials
from agentjobs_runtime.safe_text import mask_unprintable

MAX_STDERR_BYTES = 64 * 1024
STREAM_BUFFER_BYTES = 256 * 1024

_POLL_SECONDS = 0.05


_NO_SPACE = ("No space left on device", "Disk quota exceeded", "Out of diskspace")
_FATAL = 128
_KILLING_SIGNALS = (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
# What git writes when a process it started was killed.
_CHILD_KILLED = re.compile(rf"died of signal ({'|'.join(str(int(s)) for s in _KILLING_SIGNALS)})\b")
_AUTHORIZATION = re.compile(r"(?i)(authorization:\s*)[^\r\n']*")


@dataclass(frozen=True, slots=True)
class GitResult:
    stdout: bytes
    stderr: str
    exit_code: int


class GitError(Exception):
    """A git command failed. Contains no credentials, so it may be logged and shown."""

    def __init__(self, arguments: tuple[str, ...], exit_code: int, stderr: str) -> None:
        self.arguments = tuple(_redact(argument) for argument in arguments)
        self.exit_code = exit_code
        self.stderr = _redact(stderr)
        verb = self.arguments[0] if self.arguments else ""
        super().__init__(f"git {verb} exited with {exit_code}: {self.reason}")

    @property
    def reason(self) -> str:
        """Which limit was exceeded, or the most informative line of stderr. Safe to show."""
        if (limit := explain_limit(self.exit_code, self.stderr)) is not None:
            return limit
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        candidates = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
        text = candidates[0].split(": ", 1)[-1] if candidates else "no reason given"
        if self.is_lack_of_space:
            text = f"the disk is full: {text}"
        return mask_unprintable(text)[:500]

    @property
    def was_killed(self) -> bool:
        """Whether the kernel, for lack of memory, or an operator killed git."""
        # Git writes nothing when its transport process ends without a message.
        is_silent = self.exit_code == _FATAL and not self.stderr
        is_of_child = _CHILD_KILLED.search(self.stderr) is not None
        return -self.exit_code in _KILLING_SIGNALS or is_of_child or is_silent

    @property
    def is_at_limit(self) -> bool:
        """Whether git was ended at one of its limits."""
        return explain_limit(self.exit_code, self.stderr) is not None

    @property
    def is_lack_of_space(self) -> bool:
        return reports_lack_of_space(self.stderr)


def reports_lack_of_space(message: str) -> bool:
    return any(text in message for text in _NO_SPACE)


class GitTimeout(GitError):
    """A git command was killed at its timeout."""


async def git(
    *arguments: str,
    cwd: Path | None = None,
    input: bytes | None = None,
    timeout_seconds: float = 120,
    allowed_exit_codes: Collection[int] = (0,),
    max_written_bytes: int | None = None,
    **options: Unpack[GitOptions],
) -> GitResult:
    """Run one command; raise GitError for any exit code that is not allowed."""
    process = await open_git(
        *arguments,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL if input is None else asyncio.subprocess.PIPE,
        **options,
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            stdout, stderr = await _communicate(process, input, max_written_bytes)
    except TimeoutError:
        raise GitTimeout(
            arguments, -signal.SIGKILL, f"timed out after {timeout_seconds} s"
        ) from None
    finally:
        await stop_git(process)
    exit_code = process.returncode or 0
    if exit_code not in allowed_exit_codes:
        raise GitError(arguments, exit_code, stderr)
    return GitResult(stdout, stderr, exit_code)


async def open_git(
    *arguments: str,
    cwd: Path | None = None,
    stdin: int = asyncio.subprocess.PIPE,
    stderr: int = asyncio.subprocess.PIPE,
    cpu_seconds: int | None = None,
    **options: Unpack[GitOptions],
) -> GitChild:
    """Start a command whose streams the caller handles; the caller must call `stop_git`."""
    variables = git_environment(**options)
    if shutil.which("git", path=variables["PATH"]) is None:
        raise GitError(arguments, 127, "fatal: git is not installed (apt-get install git)")
    return await start_child(
        limit_resources("git", *arguments, cpu_seconds=cpu_seconds),
        cwd=cwd or "/",
        environment=variables,
        stdin=stdin,
        stderr=stderr,
    )


async def start_child(
    command: Sequence[str],
    *,
    cwd: Path | str = "/",
    environment: Mapping[str, str],
    stdin: int = asyncio.subprocess.PIPE,
    stderr: int = asyncio.subprocess.PIPE,
) -> GitChild:
    """Start a program as `open_git` starts git; the caller must call `stop_git`."""
    starting = asyncio.ensure_future(
        GitChild.start(
            command,
            cwd=cwd,
            environment=environment,
            stdin=stdin,
            stderr=stderr,
            buffer_bytes=STREAM_BUFFER_BYTES,
        )
    )
    try:
        # A start that is cancelled half-way would leak the process and its pipes.
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await stop_git(await starting)
        raise


async def stop_git(process: GitChild) -> None:
    """Kill the command and everything it started, if running, and wait for its end."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    process.close()


async def _communicate(
    process: GitChild, data: bytes | None, max_written_bytes: int | None
) -> tuple[bytes, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr, *_ = await asyncio.gather(
        process.stdout.read(),
        _read_tail(process.stderr),
        _feed(process, data),
        _end_children(process),
        _limit_writes(process, max_written_bytes),
    )
    return stdout, stderr.decode("utf-8", "replace")


async def _limit_writes(process: GitChild, max_bytes: int | None) -> None:
    """End the command once it has written more. The kernel limits single files only."""
    if max_bytes is None:
        return
    counters = Path(f"/proc/{process.pid}/io")
    ended = asyncio.ensure_future(process.wait())
    with contextlib.suppress(OSError):
        while not ended.done():
            if int(counters.read_text().split()[3]) > max_bytes:
                os.killpg(process.pid, signal.SIGXFSZ)
            await asyncio.wait([ended], timeout=_POLL_SECONDS)


async def _end_children(process: GitChild) -> None:
    """If git itself was killed, its transport process lives on and keeps the streams open."""
    await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    """The end of the stream: a remote may send an endless one."""
    tail = b""
    while chunk := await stream.read(MAX_STDERR_BYTES):
        tail = (tail + chunk)[-MAX_STDERR_BYTES:]
    return tail


async def _feed(process: GitChild, data: bytes | None) -> None:
    if data is None or process.stdin is None:
        return
    # A command may exit without reading all input; its exit code says why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


def _redact(text: str) -> str:
    return _AUTHORIZATION.sub(r"\1…", strip_credentials(text))
