"""Git smart HTTP for `local` repositories at `/git/<org>/<owner>/<name>.git`.

Rejects the dumb protocol, and any push with a forbidden ref update before git reads it.
"""

import asyncio
import functools
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.repositories import repository_name
from agentjobs.pulls.pushes import record_push
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.headers import media_type
from agentjobs.web.context import WebContext
from agentjobs.web.git.access import GitAccess, authorize
from agentjobs.web.git.backend import (
    IDLE_SECONDS,
    MAX_NEGOTIATION_BYTES,
    MAX_PUSH_BYTES,
    BackendRequest,
    running_backend,
)
from agentjobs.web.git.body import Body, gunzip, limit_size, receive_pieces, spool
from agentjobs.web.git.push_commands import (
    MalformedOpening,
    OpeningParser,
    OpeningTooLarge,
    PushOpening,
    rejection_report,
)
from agentjobs.web.git.visible_refs import job_advertisement, visible_refs
from agentjobs_runtime.git.environment import Configuration
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.problems import Problem

_UPLOAD = "git-upload-pack"
_RECEIVE = "git-receive-pack"
_log = logging.getLogger(__name__)
_PROTOCOL = re.compile(r"[a-z0-9=:.-]{1,200}")


class Relay(Response):
    """Runs the backend once `body` may be processed, which waits for a free slot.

    Calls `afterwards` when git has ended, before the response completes.
    """

    def __init__(
        self,
        backend_request: BackendRequest,
        body: AbstractAsyncContextManager[Body],
        afterwards: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._backend_request = backend_request
        self._body = body
        self._afterwards = afterwards

    # The scope was read before.
    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with (
                self._body as body,
                running_backend(self._backend_request, body.size_bytes) as backend,
            ):
                await backend.exchange(body, receive, send)
        finally:
            # Refs may have changed even if the client disconnected.
            if self._afterwards is not None:
                await asyncio.shield(self._afterwards())
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def info_refs(request: Request) -> Response:
    """The ref advertisement of a fetch or a push."""
    access = await authorize(request)
    service = request.query_params.get("service")
    if service not in {_UPLOAD, _RECEIVE}:
        raise Problem(
            "not_found",
            "Only git's smart HTTP protocol is supported; use a current version of git.",
        )
    if service == _RECEIVE:
        access.check_write()
    if service == _RECEIVE and access.only_branch is not None:
        return await _advertise_to_job(request, access)
    body = limit_size(0, receive_pieces(request.receive))
    backend_request = _backend_request(request, access, "info/refs", query=f"service={service}")
    return Relay(backend_request, _fetching(request, access, Body(body, body)))


async def upload_pack(request: Request) -> Response:
    """Clone and fetch."""
    access = await authorize(request)
    body = _body(request, _UPLOAD, MAX_NEGOTIATION_BYTES)
    backend_request = _backend_request(request, access, _UPLOAD)
    return Relay(backend_request, _fetching(request, access, body))


async def receive_pack(request: Request) -> Response:
    """Push, after its ref updates were checked."""
    access = await authorize(request)
    access.check_write()
    context: WebContext = request.app.state.context
    # A job's push is small, and its work would be lost.
    if access.only_branch is None:
        context.free_space.check()
        context.repositories_space.check()
    body = _body(request, _RECEIVE, MAX_PUSH_BYTES)
    opening = await _read_opening(body)
    forbidden = access.forbidden_updates(opening)
    updated = [update.name for update in opening.updates]
    deletes_only = all(update.deletes for update in opening.updates)
    needs_quota = access.only_branch is None and not deletes_only
    if needs_quota and not forbidden:
        try:
            await context.repository_quota.check(access.organization_id)
        except Problem as problem:
            forbidden = dict.fromkeys(updated, problem.message)
    if forbidden:
        return await _reject(opening, forbidden, body)

    async def record() -> None:
        await record_push(context.db, context.settings.repositories_path, access.repo_id, updated)

    backend_request = _backend_request(
        request, access, _RECEIVE, configuration=visible_refs(access, updated)
    )
    return Relay(
        backend_request,
        _pushing(request, access, body.after(opening.received), needs_quota=needs_quota),
        record if updated else None,
    )


async def _advertise_to_job(request: Request, access: GitAccess) -> Response:
    context: WebContext = request.app.state.context
    context.repositories.require()
    async with _slot(request, access):
        try:
            content = await job_advertisement(access, context.settings.repositories_path)
        except GitError as error:
            _log.warning("the refs of %s cannot be read: %s", access.repo_id, error.reason)
            raise Problem("not_found", "The repository's files are not on this host.") from None
    return Response(
        content,
        media_type=f"application/x-{_RECEIVE}-advertisement",
        headers={"Cache-Control": "no-cache, max-age=0, must-revalidate"},
    )


@asynccontextmanager
async def _fetching(request: Request, access: GitAccess, body: Body) -> AsyncIterator[Body]:
    async with _slot(request, access):
        yield body


@asynccontextmanager
async def _pushing(
    request: Request, access: GitAccess, body: Body, *, needs_quota: bool
) -> AsyncIterator[Body]:
    """Received first, so that a slow client does not hold up other changes to the repository."""
    context: WebContext = request.app.state.context
    async with _slot(request, access), AsyncExitStack() as stack:
        try:
            directory = context.settings.data_path
            received = await stack.enter_async_context(spool(body, directory, IDLE_SECONDS))
        except TimeoutError:
            raise _timed_out() from None
        if needs_quota:
            # Other pushes may have used it while this one waited.
            await context.repository_quota.check(access.organization_id)
            size_bytes = received.size_bytes or 0
            stack.callback(context.repository_quota.add, access.organization_id, size_bytes)
        async with changing_repository(context.db, access.repo_id):
            # Receiving and waiting may have taken minutes: the job may be cancelled by now, the
            # key revoked or the repository disconnected.
            (await authorize(request)).check_write()
            yield received


def _slot(request: Request, access: GitAccess) -> AbstractAsyncContextManager[None]:
    context: WebContext = request.app.state.context
    # Without the repository, a job's work would be lost.
    if access.only_branch is None:
        context.git_slots.check_cpu_time(access.organization_id)
    return context.git_slots.hold(access.organization_id)


def _backend_request(
    request: Request,
    access: GitAccess,
    path: str,
    query: str = "",
    configuration: Configuration | None = None,
) -> BackendRequest:
    context: WebContext = request.app.state.context
    protocol = request.headers.get("git-protocol", "")
    context.repositories.require()
    return BackendRequest(
        project_root=context.settings.repositories_path,
        path=f"/{repository_name(access.repo_id)}/{path}",
        # A HEAD is handled as a GET; the server omits the body.
        method="POST" if request.method == "POST" else "GET",
        query=query,
        content_type=f"application/x-{path}-request" if request.method == "POST" else "",
        protocol=protocol if _PROTOCOL.fullmatch(protocol) else "",
        actor=access.actor,
        charge=functools.partial(context.git_slots.charge, access.organization_id),
        configuration=configuration or {},
    )


def _body(request: Request, service: str, max_bytes: int) -> Body:
    if media_type(request.headers.get("content-type")) != f"application/x-{service}-request":
        raise Problem(
            "unsupported_media_type", f"The body must be application/x-{service}-request."
        )
    received = limit_size(max_bytes, receive_pieces(request.receive))
    match request.headers.get("content-encoding", "identity").strip().lower():
        case "gzip" | "x-gzip":
            return Body(limit_size(max_bytes, gunzip(received)), received)
        case "identity":
            return Body(received, received)
        case _:
            raise Problem("unsupported_media_type", "The only supported content encoding is gzip.")


async def _read_opening(body: Body) -> PushOpening:
    parser = OpeningParser()
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            async for piece in body.pieces:
                opening = parser.feed(piece)
                if opening is not None:
                    return opening
    except TimeoutError:
        raise _timed_out() from None
    except OpeningTooLarge as error:
        raise Problem("payload_too_large", f"This push is too large: {error}.") from None
    except MalformedOpening as error:
        raise Problem("bad_request", f"This is not a push: {error}.") from None
    raise Problem("bad_request", "This is not a push: the list of refs is incomplete.")


async def _reject(opening: PushOpening, forbidden: dict[str, str], body: Body) -> Response:
    """Sends a git status report if the client supports it, so that git prints the reasons."""
    report = rejection_report(opening, forbidden)
    if report is None:
        name, reason = next(iter(forbidden.items()))
        raise Problem("insufficient_scope", f"{name} was not changed: {reason}.")
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            async for _ in body.received:
                pass
    except TimeoutError:
        raise _timed_out() from None
    return Response(report, media_type=f"application/x-{_RECEIVE}-result")


def _timed_out() -> Problem:
    return HttpProblem(
        "request_timeout",
        f"The body did not arrive within {IDLE_SECONDS:.0f} seconds.",
        headers={"Connection": "close"},
    )


_REPOSITORY = "/git/{org}/{owner}/{name}.git"

routes: list[BaseRoute] = [
    Route(f"{_REPOSITORY}/info/refs", info_refs, methods=["GET"]),
    Route(f"{_REPOSITORY}/{_UPLOAD}", upload_pack, methods=["POST"]),
    Route(f"{_REPOSITORY}/{_RECEIVE}", receive_pack, methods=["POST"]),
]
