"""Live pages: sends the parts of a page that changed as server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.organizations.sessions import Viewer, find_viewer
from agentjobs.store.database import StoreUnavailable
from agentjobs.web.api.connected import Interruption, run_while_connected
from agentjobs.web.api.errors import stopping
from agentjobs.web.dashboard.cookies import SESSION, read_cookie
from agentjobs.web.dashboard.page_route import PageHandler, PageRoute, Role, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.webhooks.events import activity_topic
from agentjobs_runtime.problems import Problem

# HTML by the id of the element it belongs in.
Parts = Mapping[str, str]

# Browsers open six connections per host; many windows add up.
_MAX_STREAMS = 24
# At most one update per interval, however busy the service is.
_MIN_INTERVAL_SECONDS = 0.4
# Renders again without a signal, for relative times. Also keeps proxies from closing the stream.
_REFRESH_SECONDS = 20.0
HEARTBEAT = b": heartbeat\n\n"
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Stops nginx from buffering events.
    (b"x-accel-buffering", b"no"),
    (b"cache-control", b"no-store"),
]

Emit = Callable[[bytes], Awaitable[None]]


class EventStream(Response):
    """Server-sent events until `follow` returns, the client disconnects, or the viewer signs out
    or loses the membership."""

    def __init__(self, request: PageRequest, follow: Callable[[Emit], Awaitable[None]]) -> None:
        super().__init__()
        if request.context.stopping.is_set():
            raise stopping()
        if request.context.streams[request.viewer.session] >= _MAX_STREAMS:
            raise Problem(
                "too_many_streams", "Too many pages are open in this session; close some of them."
            )
        self._request = request
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams, session = self._request.context.streams, self._request.viewer.session
        streams[session] += 1
        try:
            await self._send(scope, receive, send)
        finally:
            streams[session] -= 1
            if not streams[session]:
                del streams[session]

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
        await send(start)
        if scope["method"] != "HEAD":

            async def emit(text: bytes) -> None:
                await send({"type": "http.response.body", "body": text, "more_body": True})

            context = self._request.context
            signed_out = until_signed_out(self._request)
            ended_by = await run_while_connected(
                self._run(emit), receive, context.stopping, signed_out
            )
            if ended_by is Interruption.CLIENT:
                return
        await send({"type": "http.response.body", "body": b""})

    async def _run(self, emit: Emit) -> None:
        await emit(b"retry: 1000\n\n")
        try:
            await self._follow(emit)
        except (Problem, StoreUnavailable):
            # The browser reconnects and gets the error as a response.
            return


def event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def live_parts(
    request: PageRequest, topics: tuple[str, ...], render: Callable[[], Awaitable[Parts]]
) -> Response:
    """Calls `render` after each change, until the request is settled."""

    async def follow(emit: Emit) -> None:
        shown: dict[str, str] = {}
        with request.db.changes.listen(*topics) as signal:
            while True:
                parts = await render()
                for element, html in parts.items():
                    if shown.get(element) != html:
                        await emit(event("part", {"id": element, "html": html}))
                shown.update(parts)
                if request.is_settled:
                    await emit(event("end", None))
                    return
                await asyncio.sleep(_MIN_INTERVAL_SECONDS)
                if not await signal.wait(_REFRESH_SECONDS):
                    await emit(HEARTBEAT)

    return EventStream(request, follow)


def live(show: PageHandler, *parts: str, topics: tuple[str, ...] = ()) -> PageHandler:
    """The stream of the page `show`: its `parts`, whose ids are the names of their templates.

    The page is shown again, without the rest, after each activity of the organization and after
    `topics`, or after those that it names itself, until it is settled.
    """

    async def stream(request: PageRequest) -> Response:
        request.parts = parts
        # Before the stream starts: browsers reconnect to a broken stream forever.
        await show(request)

        async def render() -> Parts:
            await show(request)
            return request.rendered

        changes = request.topics or (*topics, activity_topic(request.organization_id))
        return live_parts(request, changes, render)

    return stream


def live_page(
    path: str, role: Role, show: PageHandler, *parts: str, topics: tuple[str, ...] = ()
) -> Routes:
    """The page `show` and its stream."""
    stream = live(show, *parts, topics=topics)
    return [
        PageRoute("GET", path, role, show),
        PageRoute("GET", f"{path.rstrip('/')}/stream", role, stream),
    ]


async def until_signed_out(request: PageRequest) -> None:
    """Returns when the session ends, or its organization or role changes."""
    token = read_cookie(request.http, request.settings, SESSION)
    with request.db.changes.listen("sessions") as signal:
        while True:
            await signal.wait(_REFRESH_SECONDS)
            viewer = await find_viewer(request.db, request.settings, token, is_request=False)
            if viewer is None or _access(viewer) != _access(request.viewer):
                return


def _access(viewer: Viewer) -> tuple[str, str, bool]:
    """What a page was rendered for: another role gets other buttons."""
    return viewer.organization_id, viewer.role, viewer.is_operator
