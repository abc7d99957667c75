"""Runs one `git http-backend` per request, streaming in both directions.

Knows CGI and processes, but not who makes the request. The process ends with the request.
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send

from agentjobs.local_git.repositories import DURABLE
from agentjobs.web.git.body import Body
from agentjobs_runtime.git.child import GitChild
from agentjobs_runtime.git.environment import Configuration
from agentjobs_runtime.git.limits import lower_priority
from agentjobs_runtime.git.process import open_git
from agentjobs_runtime.problems import Problem

MAX_PUSH_BYTES = 2 * 1024**3
MAX_NEGOTIATION_BYTES = 10 * 1024**2
IDLE_SECONDS = 300.0

_PIECE_BYTES = 64 * 1024
_STDERR_KEPT_BYTES = 4 * 1024
_GRACE_SECONDS = 5.0
# Limit for a push, plus a second for each MiB received: several times what real packs need.
_MIN_CPU_SECONDS = 10
_CONFIGURATION: Mapping[str, str] = {
    **DURABLE,
    "http.uploadpack": "true",
    "http.receivepack": "true",
    "http.getanyfile": "false",
    "http.maxRequestBuffer": str(MAX_NEGOTIATION_BYTES),
    "receive.autogc": "false",
    "receive.fsckObjects": "true",
    "receive.maxInputSize": str(MAX_PUSH_BYTES),
    "receive.denyDeleteCurrent": "refuse",
    # A job that runs again rewrites its own branch, guarded by its lease on the old commit.
    "receive.denyNonFastForwards": "false",
    # Limits the memory a clone uses for deltas.
    "pack.windowMemory": "64m",
    "pack.threads": "1",
}

_log = logging.getLogger(__name__)


class BackendRequest(msgspec.Struct, frozen=True):
    """The CGI request. Every value is chosen here or validated; none is passed through."""

    project_root: Path
    path: str
    method: str
    query: str = ""
    content_type: str = ""
    protocol: str = ""
    actor: str = ""
    # Called with the CPU seconds that were used.
    charge: Callable[[float], None] = lambda _: None
    # Added to the configuration of every request.
    configuration: Configuration = {}

    @property
    def is_push(self) -> bool:
        return self.path.endswith("/git-receive-pack")

    @property
    def variables(self) -> dict[str, str]:
        return {
            "GIT_PROJECT_ROOT": str(self.project_root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": self.path,
            "REQUEST_METHOD": self.method,
            "QUERY_STRING": self.query,
            "CONTENT_TYPE": self.content_type,
            "REMOTE_USER": self.actor,
            "GIT_PROTOCOL": self.protocol,
        }


class Backend:
    """A running backend process."""

    def __init__(self, process: GitChild) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._idle = asyncio.timeout(IDLE_SECONDS)

    async def exchange(self, body: Body, receive: Receive, send: Send) -> None:
        """Sends the response except for its end, which the caller sends."""
        try:
            async with self._idle:
                await self._transfer(body, receive, send)
                await self._process.wait()
        except TimeoutError:
            raise Problem(
                "bad_request", f"No data was transferred for {IDLE_SECONDS:.0f} seconds."
            ) from None

    async def _transfer(self, body: Body, receive: Receive, send: Send) -> None:
        feed = asyncio.create_task(self._feed(body, receive))
        relay = asyncio.create_task(self._relay(send))
        try:
            await asyncio.wait({feed, relay}, return_when=asyncio.FIRST_COMPLETED)
            # Feeding ends only with an error: a disconnect or an invalid body.
            await (relay if relay.done() else feed)
        finally:
            for task in (feed, relay):
                task.cancel()
            await asyncio.gather(feed, relay, return_exceptions=True)

    async def _feed(self, body: Body, receive: Receive) -> None:
        # The backend may close its input early; the client must still finish sending.
        with suppress(BrokenPipeError, ConnectionResetError):
            async for piece in body.pieces:
                self._stdin.write(piece)
                await self._stdin.drain()
                self._note_progress()
        async for _ in body.received:
            self._note_progress()
        self._stdin.close()
        while (await receive())["type"] != "http.disconnect":
            pass
        raise ClientDisconnect

    async def _relay(self, send: Send) -> None:
        status, headers = await self._head()
        # Wait for output before sending headers, so that errors get a status of their own.
        piece = await self._stdout.read(_PIECE_BYTES)
        if not piece and await self._process.wait() != 0:
            raise Problem("bad_request", "git could not process this request.")
        await send({"type": "http.response.start", "status": status, "headers": headers})
        while piece:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self._note_progress()
            piece = await self._stdout.read(_PIECE_BYTES)

    async def _head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        try:
            head = await self._stdout.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise RuntimeError("git http-backend returned no response") from None
        status, headers = parse_head(head)
        if status == HTTPStatus.NOT_FOUND:
            raise Problem("not_found", "The repository's files are not on this host.")
        if status >= HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"git http-backend returned {status}")
        return status, headers

    def _note_progress(self) -> None:
        self._idle.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)


@asynccontextmanager
async def running_backend(
    request: BackendRequest, body_bytes: int | None = None
) -> AsyncIterator[Backend]:
    """The backend process has ended when the block exits.

    `body_bytes` limits its CPU time, because a small pack can take hours.
    """
    process = await open_git(
        "http-backend",
        environment=request.variables,
        configuration={**_CONFIGURATION, **request.configuration},
        cpu_seconds=None if body_bytes is None else _MIN_CPU_SECONDS + body_bytes // 1024**2,
    )
    lower_priority(process.pid)
    stderr = asyncio.create_task(_read_stderr(process))
    try:
        yield Backend(process)
    finally:
        await asyncio.shield(_terminate(process, is_push=request.is_push))
        request.charge(process.cpu_seconds)
        _report(request, process.returncode, await stderr)
        process.close()


def parse_head(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Converts CGI headers to HTTP headers and the status."""
    status = 200
    headers = []
    for line in head.split(b"\r\n"):
        name, separator, value = line.partition(b":")
        if not separator:
            continue
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value.strip()))
    return status, headers


async def _terminate(process: GitChild, *, is_push: bool) -> None:
    """Closes the input of a push first, so that git removes its partial pack; a signal would not.

    A clone has nothing to clean up, and would continue to write.
    """
    assert process.stdin is not None
    process.stdin.close()
    signals = (
        (None, signal.SIGTERM, signal.SIGKILL) if is_push else (signal.SIGTERM, signal.SIGKILL)
    )
    for signal_number in signals:
        if signal_number is not None and not _has_ended(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal_number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await _all_ended(process)
                return


def _has_ended(process: GitChild) -> bool:
    assert process.stdout is not None
    return process.returncode is not None and process.stdout.at_eof()


async def _all_ended(process: GitChild) -> None:
    """Child processes keep the output open, so its end means that all have ended."""
    assert process.stdout is not None
    while await process.stdout.read(_PIECE_BYTES):
        pass
    await process.wait()


async def _read_stderr(process: GitChild) -> str:
    assert process.stderr is not None
    tail = b""
    while piece := await process.stderr.read(_STDERR_KEPT_BYTES):
        tail = (tail + piece)[-_STDERR_KEPT_BYTES:]
    return tail.decode("utf-8", "replace").strip()


def _report(request: BackendRequest, exit_code: int | None, stderr: str) -> None:
    # A negative code is a signal that we sent.
    if exit_code is not None and exit_code > 0:
        fields = {"git_path": request.path, "exit_code": exit_code, "stderr": stderr}
        _log.warning("git http-backend failed", extra={"fields": fields})
