"""A small web server for tests on HTTP and HTTPS, with its own certificate authority."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trustme
from aiohttp import web


@dataclass
class WebServer:
    """`requests` has every request so far; `files` is a directory whose files it serves."""

    http_port: int
    https_port: int
    authority: trustme.CA
    files: Path
    requests: list[web.Request] = field(default_factory=list)

    def write_authority(self, path: Path) -> Path:
        self.authority.cert_pem.write_to_path(str(path))
        path.chmod(0o644)
        return path


@asynccontextmanager
async def web_server(*names: str, files: Path, host: str = "127.0.0.1") -> AsyncIterator[WebServer]:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    requests: list[web.Request] = []

    @web.middleware
    async def record(request: web.Request, handler: web.RequestHandler) -> web.StreamResponse:
        requests.append(request)
        return await handler(request)

    application = web.Application(middlewares=[record], client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/hello", _hello)
    application.router.add_post("/count", _count)
    application.router.add_get("/chunks", _chunks)
    application.router.add_get("/big", _big)
    application.router.add_get("/away", _away)
    application.router.add_static("/files", files)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        sites = (web.TCPSite(runner, host, 0), web.TCPSite(runner, host, 0, ssl_context=context))
        for site in sites:
            await site.start()
        http, https = (port for _, port in runner.addresses)
        yield WebServer(http, https, authority, files, requests)
    finally:
        await runner.shutdown()
        await runner.cleanup()


async def _hello(request: web.Request) -> web.Response:
    return web.Response(text=f"hello {request.headers['Host']}\n")


async def _count(request: web.Request) -> web.Response:
    return web.Response(text=f"{len(await request.read())} bytes\n")


async def _chunks(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for number in range(100):
        await response.write(f"{number}\n".encode())
    await response.write_eof()
    return response


async def _big(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(int(request.query["mib"])):
        await response.write(bytes(1024 * 1024))
    await response.write_eof()
    return response


async def _away(request: web.Request) -> web.Response:
    raise web.HTTPFound(request.query["to"])
