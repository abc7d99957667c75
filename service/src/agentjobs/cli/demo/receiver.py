"""The demo's webhook receiver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from agentjobs.cli.demo.service import DemoFailed
from agentjobs_client import ClientError, InvalidSignature, WebhookEvent, verify_webhook

_PATH = "/webhooks"
_MAX_BYTES = 64 * 1024
_SHUTDOWN_SECONDS = 1.0


class Receiver:
    """Verifies deliveries with `secret`, which is set after the endpoint was added."""

    def __init__(self) -> None:
        self.url = ""
        self.secret = ""
        self._received: asyncio.Queue[WebhookEvent | ClientError] = asyncio.Queue()

    async def receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            self._received.put_nowait(verify_webhook(body, request.headers, self.secret))
        except ClientError as error:
            self._received.put_nowait(error)
            return web.Response(status=401 if isinstance(error, InvalidSignature) else 400)
        return web.Response(status=204)

    async def next_event(self) -> WebhookEvent:
        received = await self._received.get()
        if isinstance(received, ClientError):
            raise DemoFailed(f"received an invalid webhook: {received}")
        return received


@asynccontextmanager
async def running_receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    application = web.Application(client_max_size=_MAX_BYTES)
    application.router.add_post(_PATH, receiver.receive)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        receiver.url = f"http://127.0.0.1:{site.port}{_PATH}"
        yield receiver
    finally:
        await runner.cleanup()
