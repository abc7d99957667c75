"""The web application in this process, an organization with an API key, and ways to call it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator, Caller
from agentjobs.store.database import Database
from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
from agentjobs_runtime.settings import Settings
from tests.support.jobs import JobHarness, job_harness

ORGANIZATION = "acme"
JOB = {"repo": f"{ORGANIZATION}/shop", "agent": "fixer"}


@dataclass
class Service:
    harness: JobHarness
    context: WebContext
    app: ASGIApp
    http: httpx.AsyncClient
    caller: Caller

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.get(path, **options)

    async def post(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.post(path, **options)

    async def create_job(self, **fields: Any) -> str:
        response = await self.post("/v1/jobs", json={**JOB, **fields})
        assert response.status_code == 202, response.text
        job_id: str = response.json()["job_id"]
        return job_id

    async def key(self, organization: str = ORGANIZATION, **options: Any) -> dict[str, str]:
        """Request headers with a new key."""
        created = await create_key(self.harness.db, organization, **options)
        return {"Authorization": f"Bearer {created.key}"}

    def has_subscriber(self, topic: str) -> bool:
        return topic in self.context.db.changes._subscribers

    async def wait_for_subscriber(self, topic: str) -> None:
        async with asyncio.timeout(30):
            while not self.has_subscriber(topic):  # noqa: ASYNC110 - subscriptions emit no signal
                await asyncio.sleep(0)

    def live(self, path: str, content: bytes | None = None, **headers: str) -> "LiveCall":
        """A GET, or with `content` a POST, whose response is read while it is being sent."""
        request_headers = httpx.Headers({"Host": "testserver", **self.http.headers})
        request_headers.update(headers)
        raw = [(name.lower(), value) for name, value in request_headers.raw]
        return LiveCall(self.app, path, raw, content)


@dataclass
class LiveCall:
    app: ASGIApp
    target: str
    headers: list[tuple[bytes, bytes]]
    content: bytes | None = None
    sent: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._request_sent = False
        path, _, query = self.target.partition("?")
        self._task = asyncio.create_task(
            self.app(  # type: ignore[arg-type]
                {
                    "type": "http",
                    "asgi": {"version": "3.0"},
                    "http_version": "1.1",
                    "method": "GET" if self.content is None else "POST",
                    "scheme": "http",
                    "path": path,
                    "raw_path": path.encode(),
                    "query_string": query.encode(),
                    "root_path": "",
                    "headers": self.headers,
                    "client": ("127.0.0.1", 1),
                    "server": ("testserver", 80),
                },
                self._receive,
                self.sent.put,
            )
        )

    async def start(self) -> Message:
        message = await self._next()
        assert message["type"] == "http.response.start"
        return message

    async def body(self) -> str | None:
        """The next chunk; None when the response is complete."""
        message = await self._next()
        if not message.get("more_body", False):
            assert message["body"] == b""
            return None
        text: str = message["body"].decode()
        return text

    async def rest(self) -> str:
        pieces = []
        while (piece := await self.body()) is not None:
            pieces.append(piece)
        return "".join(pieces)

    def leave(self) -> None:
        self.left.set()

    async def wait(self) -> None:
        async with asyncio.timeout(30):
            await self._task

    async def _next(self) -> Message:
        async with asyncio.timeout(30):
            return await self.sent.get()

    async def _receive(self) -> Message:
        if not self._request_sent:
            self._request_sent = True
            return {"type": "http.request", "body": self.content or b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def service_on(db: Database, settings: Settings) -> Service:
    harness = job_harness(db, settings)
    caller = await harness.organization(ORGANIZATION)
    context = WebContext(harness.context, ApiKeyAuthenticator(db))
    app = build_application(context)
    created = await create_key(db, ORGANIZATION)
    http = httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://testserver",
        headers={"Authorization": f"Bearer {created.key}"},
    )
    return Service(harness, context, app, http, caller)


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and code of an error response; fails if it does not have the API's error shape."""
    error = response.json()["error"]
    assert (
        {"code", "message", "request_id"}
        <= set(error)
        <= {
            "code",
            "message",
            "request_id",
            "details",
        }
    )
    assert error["request_id"] == response.headers["x-request-id"]
    return response.status_code, error["code"]
