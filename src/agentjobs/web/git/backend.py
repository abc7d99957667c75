"""One `git http-backend` for one request: streamed both ways, and gone when either side is.

Knows CGI and processes. Refuses to know who is asking and whether they may.
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send

from agentjobs.git.child import GitChild
from agentjobs.git.process import open_git
from agentjobs.local_git.repositories import DURABLE
from agentjobs.problems import Problem
from agentjobs.web.git.body import Body

MAX_PUSH_BYTES = 2 * 1024**3
MAX_NEGOTIATION_BYTES = 10 * 1024**2
IDLE_SECONDS = 300.0

_PIECE_BYTES = 64 * 1024
_STDERR_KEPT_BYTES = 4 * 1024
_POLITE_SECONDS = 5.0
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
    # A clone may not take all the memory of the machine for finding deltas.
    "pack.windowMemory": "64m",
    "pack.threads": "1",
}

_log = logging.getLogger(__name__)


class BackendRequest(msgspec.Struct, frozen=True):
    """What git is asked; every word of it is chosen here or checked before, none passed through."""

    project_root: Path
    path: str
    method: str
    query: str = ""
    content_type: str = ""
    protocol: str = ""
    who: str = ""

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
            "REMOTE_USER": self.who,
            "GIT_PROTOCOL": self.protocol,
        }


class Backend:
    """A running backend between a client that sends and one that listens."""

    def __init__(self, process: GitChild) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._idle = asyncio.timeout(IDLE_SECONDS)

    async def exchange(self, body: Body, receive: Receive, send: Send) -> None:
        """Everything but the end of the answer, which is the caller's to send."""
        try:
            async with self._idle:
                await self._converse(body, receive, send)
                await self._process.wait()
        except TimeoutError:
            raise Problem("bad_request", f"Nothing moved for {IDLE_SECONDS:.0f} seconds.") from None

    async def _converse(self, body: Body, receive: Receive, send: Send) -> None:
        feeding = asyncio.create_task(self._feed(body, receive))
        answer = asyncio.create_task(self._answer(send))
        try:
            await asyncio.wait({feeding, answer}, return_when=asyncio.FIRST_COMPLETED)
            # The feeding ends only by a failure: a client that left, or a body that is no good.
            await (answer if answer.done() else feeding)
        finally:
            for task in (feeding, answer):
                task.cancel()
            await asyncio.gather(feeding, answer, return_exceptions=True)

    async def _feed(self, body: Body, receive: Receive) -> None:
        # A backend that has heard enough closes its ear; the client must still be let finish.
        with suppress(BrokenPipeError, ConnectionResetError):
            async for piece in body.pieces:
                self._stdin.write(piece)
                await self._stdin.drain()
                self._moved()
        async for _ in body.received:
            self._moved()
        self._stdin.close()
        while (await receive())["type"] != "http.disconnect":
            pass
        raise ClientDisconnect

    async def _answer(self, send: Send) -> None:
        status, headers = await self._head()
        # Held back until git has something to say: until then an error can still be told as one.
        piece = await self._stdout.read(_PIECE_BYTES)
        if not piece and await self._process.wait() != 0:
            raise Problem("bad_request", "git could not make sense of this request.")
        await send({"type": "http.response.start", "status": status, "headers": headers})
        while piece:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self._moved()
            piece = await self._stdout.read(_PIECE_BYTES)

    async def _head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        try:
            head = await self._stdout.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise RuntimeError("git http-backend gave no answer") from None
        status, headers = parse_head(head)
        if status == HTTPStatus.NOT_FOUND:
            raise Problem("not_found", "The repository's files are not on this host.")
        if status >= HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"git http-backend answered {status}")
        return status, headers

    def _moved(self) -> None:
        self._idle.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)


@asynccontextmanager
async def running_backend(request: BackendRequest) -> AsyncIterator[Backend]:
    """A backend that has ended, one way or another, when the block is left."""
    process = await open_git(
        "http-backend", environment=request.variables, configuration=_CONFIGURATION
    )
    complaints = asyncio.create_task(_last_words(process))
    try:
        yield Backend(process)
    finally:
        await asyncio.shield(_end(process, is_push=request.is_push))
        _report(request, process.returncode, await complaints)
        process.close()


def parse_head(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """CGI's headers as HTTP's, with the status CGI hides among them."""
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


async def _end(process: GitChild, *, is_push: bool) -> None:
    """A push first hears the end of its input, and tidies up: a signal makes it leave half a pack.

    A clone has nothing to tidy, and would go on talking.
    """
    assert process.stdin is not None
    process.stdin.close()
    steps = (None, signal.SIGTERM, signal.SIGKILL) if is_push else (signal.SIGTERM, signal.SIGKILL)
    for step in steps:
        if step is not None and not _has_ended(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, step)
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLITE_SECONDS):
                await _all_ended(process)
                return


def _has_ended(process: GitChild) -> bool:
    assert process.stdout is not None
    return process.returncode is not None and process.stdout.at_eof()


async def _all_ended(process: GitChild) -> None:
    """Those it started hold its output open: the end of that is the end of them all."""
    assert process.stdout is not None
    while await process.stdout.read(_PIECE_BYTES):
        pass
    await process.wait()


async def _last_words(process: GitChild) -> str:
    assert process.stderr is not None
    kept = b""
    while piece := await process.stderr.read(_STDERR_KEPT_BYTES):
        kept = (kept + piece)[-_STDERR_KEPT_BYTES:]
    return kept.decode("utf-8", "replace").strip()


def _report(request: BackendRequest, exit_code: int | None, complaints: str) -> None:
    # Below zero it was a signal, and that was ours.
    if exit_code is not None and exit_code > 0:
        fields = {"git_path": request.path, "exit_code": exit_code, "stderr": complaints}
        _log.warning("git http-backend failed", extra={"fields": fields})
