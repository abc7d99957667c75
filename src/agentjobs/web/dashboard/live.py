"""Pages that stay true while one looks: parts of a page sent again whenever they changed."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from markupsafe import Markup
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.organizations.sessions import Viewer, find_viewer
from agentjobs.problems import Problem
from agentjobs.store.database import StoreUnavailable
from agentjobs.web.api.errors import stopping
from agentjobs.web.api.presence import Gone, while_present
from agentjobs.web.dashboard.cookies import SESSION, read_cookie
from agentjobs.web.dashboard.request_context import PageRequest

# By the id of the element whose content each is.
Parts = Mapping[str, str]

# Browsers open six at once; a session with many windows closes those that nobody looks at.
_MOST_STREAMS = 24
# Often enough to look live, seldom enough for a service that is busy.
_PAUSE_SECONDS = 0.4
# Proxies close what is silent for a minute; also what changes without being announced: times.
_LOOK_SECONDS = 20.0
_HEARTBEAT = b": still here\n\n"
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # nginx would otherwise hold events back until its buffer is full.
    (b"x-accel-buffering", b"no"),
    (b"cache-control", b"no-store"),
]

Say = Callable[[bytes], Awaitable[None]]


class EventStream(Response):
    """Server-sent events while `follow` runs and the viewer stays: who is signed out, or loses
    the membership, hears nothing more."""

    def __init__(self, request: PageRequest, follow: Callable[[Say], Awaitable[None]]) -> None:
        super().__init__()
        if request.context.stopping.is_set():
            raise stopping()
        if request.context.streams[request.viewer.session] >= _MOST_STREAMS:
            raise Problem(
                "too_many_streams", "Too many pages are live in this session; close some of them."
            )
        self._visit = request
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams, session = self._visit.context.streams, self._visit.viewer.session
        streams[session] += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            streams[session] -= 1
            if not streams[session]:
                del streams[session]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
        await send(start)
        if scope["method"] != "HEAD":

            async def say(text: bytes) -> None:
                await send({"type": "http.response.body", "body": text, "more_body": True})

            context = self._visit.context
            refused = until_signed_out(self._visit)
            left = await while_present(self._run(say), receive, context.stopping, refused)
            if left is Gone.CLIENT:
                return
        await send({"type": "http.response.body", "body": b""})

    async def _run(self, say: Say) -> None:
        await say(b"retry: 1000\n\n")
        try:
            await self._follow(say)
        except (Problem, StoreUnavailable):
            # What it showed is gone, or cannot be read now: the browser comes back and is told.
            return


def event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def live_parts(
    request: PageRequest,
    topics: tuple[str, ...],
    render: Callable[[], Awaitable[Parts]],
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> Response:
    """`render` makes the parts anew; `is_over` tells, after it, that nothing will change again."""

    async def follow(say: Say) -> None:
        shown: dict[str, str] = {}
        with request.db.changes.listen(*topics) as signal:
            while True:
                parts = await render()
                for element, html in parts.items():
                    if shown.get(element) != html:
                        part = {"id": element, "html": html, "digest": digest_of(html)}
                        await say(event("part", part))
                shown.update(parts)
                if is_over():
                    await say(event("end", None))
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
                if not await signal.wait(_LOOK_SECONDS):
                    await say(_HEARTBEAT)

    return EventStream(request, follow)


def on_page(parts: Parts) -> dict[str, dict[str, Markup | str]]:
    """For a template: what each holds, and the digest by which the script knows it again."""
    return {
        element: {"html": Markup(html), "digest": digest_of(html)}  # noqa: S704 - was rendered
        for element, html in parts.items()
    }


def digest_of(html: str) -> str:
    return hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()[:16]


async def until_signed_out(request: PageRequest) -> None:
    """Ends when the session is over, or its viewer is elsewhere or somebody else there."""
    token = read_cookie(request.http, request.settings, SESSION)
    with request.db.changes.listen("sessions") as signal:
        while True:
            await signal.wait(_LOOK_SECONDS)
            viewer = await find_viewer(request.db, request.settings, token, is_request=False)
            if viewer is None or _place(viewer) != _place(request.viewer):
                return


def _place(viewer: Viewer) -> tuple[str, str]:
    """What a page was made for: with another role it has other buttons."""
    return viewer.organization_id, viewer.role
