"""What a test of the web half holds in its hands: an organization with a key, and ways to call."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator, Caller
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
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

    async def created(self, **fields: Any) -> str:
        answer = await self.post("/v1/jobs", json={**JOB, **fields})
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    async def key(self, organization: str = ORGANIZATION, **options: Any) -> dict[str, str]:
        """The headers of one who has a new key."""
        created = await create_key(self.harness.db, organization, **options)
        return {"Authorization": f"Bearer {created.key}"}

    def hears(self, topic: str) -> bool:
        return topic in self.context.db.changes._callbacks

    async def listened_to(self, topic: str) -> None:
        async with asyncio.timeout(5):
            while not self.hears(topic):  # noqa: ASYNC110 - the store tells nobody who listens
                await asyncio.sleep(0)

    def live(self, path: str, **headers: str) -> "LiveCall":
        """A GET whose answer is looked at while it comes."""
        sent = httpx.Headers(self.http.headers)
        sent.update(headers)
        raw = [(name.lower(), value) for name, value in sent.raw]
        return LiveCall(self.app, path, raw)


@dataclass
class LiveCall:
    app: ASGIApp
    target: str
    headers: list[tuple[bytes, bytes]]
    sent: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._asked = False
        path, _, query = self.target.partition("?")
        self._task = asyncio.create_task(
            self.app(  # type: ignore[arg-type]
                {
                    "type": "http",
                    "asgi": {"version": "3.0"},
                    "http_version": "1.1",
                    "method": "GET",
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
        """The next piece; None when the answer is complete."""
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

    async def ended(self) -> None:
        async with asyncio.timeout(5):
            await self._task

    async def _next(self) -> Message:
        async with asyncio.timeout(5):
            return await self.sent.get()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
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


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an answer in the one error shape; anything else fails the test."""
    error = answer.json()["error"]
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
    assert error["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, error["code"]
