"""A registry in the test's own event loop that serves layouts, and can fail in any way."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from tests.support.oci_images import OCI, ImageLayout

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ScriptedRegistry:
    """`answers` replaces what is sent for a path, such as `/v2/acme/build/manifests/1`."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[str] = []
        self.answers: dict[str, Answer] = {}
        self.half_sent = asyncio.Event()

    @property
    def name(self) -> str:
        return f"scripted.test:{self.port}"

    def add(self, image: ImageLayout, name: str, tag: str = "1") -> None:
        manifest = image.blob(image.digest).read_bytes()
        for version in (tag, image.digest):
            self.add_manifest(name, version, manifest)
        for blob in (image.path / "blobs" / "sha256").iterdir():
            self.answers[f"/v2/{name}/blobs/sha256:{blob.name}"] = _content(blob.read_bytes())

    def add_manifest(
        self, name: str, version: str, content: bytes, media_type: str = f"{OCI}.manifest.v1+json"
    ) -> None:
        self.answers[f"/v2/{name}/manifests/{version}"] = _content(content, media_type)

    def send_half(self, image: ImageLayout, name: str, digest: str) -> None:
        """Send half of a blob, and then nothing while the client waits."""
        content = image.blob(digest).read_bytes()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            self.half_sent.set()
            await asyncio.Event().wait()
            return response

        self.answers[f"/v2/{name}/blobs/{digest}"] = answer

    def fail(self, path: str, status: int, text: str = "", **headers: str) -> None:
        async def answer(_request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=status, text=text, headers=headers)

        self.answers[path] = answer

    def cut(self, path: str) -> None:
        """Close the connection in the middle of the answer."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "100000"})
            await response.prepare(request)
            await response.write(b"{")
            assert request.transport is not None
            request.transport.abort()
            return response

        self.answers[path] = answer

    def downloads(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.requests if "/blobs/" in path]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request.path)
        answer = self.answers.get(request.path)
        if answer is not None:
            return await answer(request)
        return web.Response(status=200 if request.path == "/v2/" else 404)


@contextlib.asynccontextmanager
async def scripted_registry(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedRegistry]:
    registry = ScriptedRegistry()
    # `handler_cancellation` ends an answer that waits for ever when its client leaves.
    server = web.Server(registry.handle, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    registry.port = runner.addresses[0][1]
    try:
        yield registry
    finally:
        await runner.cleanup()


def _content(content: bytes, media_type: str = "application/octet-stream") -> Answer:
    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=content, content_type=media_type)

    return answer
