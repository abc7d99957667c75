"""The service of the web tests, and real MCP clients of it without a socket."""

import contextlib
from collections.abc import AsyncIterator

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from service.tests.unit.web.mcp.clients import MODES, Connect
from service.tests.unit.web.service import Service


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    given: str = request.param
    return given


@pytest.fixture
def connect(service: Service, mode: str) -> Connect:
    @contextlib.asynccontextmanager
    async def connected(headers: dict[str, str] | None = None) -> AsyncIterator[Client]:
        own = {"Authorization": service.http.headers["Authorization"]}
        transport = httpx2.ASGITransport(service.app)
        async with httpx2.AsyncClient(transport=transport, headers=headers or own) as http:
            streams = streamable_http_client("http://testserver/mcp", http_client=http)
            async with Client(streams, mode=mode, cache=None) as client:
                yield client

    return connected
