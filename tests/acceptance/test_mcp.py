"""MCP clients of a real service, over HTTP and over stdin and stdout."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.service import PROGRAM, Api, Service, StartService, connected

# The current revision of the protocol, and the handshake of those before it.
MODERN, LEGACY = "2026-07-28", "legacy"


@contextlib.asynccontextmanager
async def over_http(service: Service, key: str, mode: str = MODERN) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        streams = streamable_http_client(f"{service.root_url}/mcp", http_client=http)
        async with Client(streams, mode=mode) as client:
            yield client


@contextlib.asynccontextmanager
async def over_stdio(service: Service, key: str, mode: str = MODERN) -> AsyncIterator[Client]:
    environment = {"AGENTJOBS_URL": service.base_url, "AGENTJOBS_API_KEY": key}
    program = StdioServerParameters(command=PROGRAM, args=["mcp"], env=environment)
    # By default it is the stderr that was there when the package was imported.
    streams = stdio_client(program, errlog=sys.stderr)
    async with Client(streams, mode=mode) as client:
        yield client


@pytest.fixture
def stoppable(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "data", {"AGENTJOBS_DRAIN_GRACE_SECONDS": "0"}).start()
    service.port = int(service.root_url.rpartition(":")[2])
    yield service
    service.stop()


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    content: dict[str, Any] = result.structured_content
    return content


@pytest.mark.parametrize(
    ("connect", "mode"),
    [(over_http, MODERN), (over_http, LEGACY), (over_stdio, MODERN), (over_stdio, LEGACY)],
)
async def test_a_model_follows_a_job_from_its_creation_to_its_diff(
    service: Service, api: Api, key: str, connect: Any, mode: str
) -> None:
    messages: list[str | None] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        messages.append(message)

    async with connect(service, key, mode) as client:
        assert len((await client.list_tools()).tools) == 13
        receipt = await call(
            client, "create_job", repo="acme/shop", agent="edit", labels={"from": "mcp"}
        )
        job_id = receipt["job_id"]
        result = await client.call_tool(
            "watch_job", {"job_id": job_id, "wait_seconds": 300}, progress_callback=hear
        )
        assert result.structured_content["status"] == "completed", result
        listed = await call(client, "list_jobs", labels={"from": "mcp"}, status=["completed"])
        assert job_id in [job["job_id"] for job in listed["jobs"]]
        assert "editing" in (await call(client, "read_log", job_id=job_id))["log"]
        (file,) = (await call(client, "read_diff", job_id=job_id))["files"]
        assert (file["path"], file["additions"]) == ("edited.txt", 1)
        assert "+changed" in file["patch"]
        (diff,) = (await client.read_resource(f"agentjobs://jobs/{job_id}/diff")).contents
        assert "+changed" in diff.text  # type: ignore[union-attr]
        retried = await call(client, "retry_job", job_id=job_id)
        await call(client, "cancel_job", job_id=retried["job_id"])
    assert messages
    assert all(message and message.startswith("The job ") for message in messages)


async def test_a_key_that_may_only_read_is_told_so_over_stdio(service: Service, api: Api) -> None:
    async with over_stdio(service, service.key("--scope", "read")) as client:
        assert "create_job" not in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("create_job", {"repo": "acme/shop", "agent": "edit"})
    assert result.structured_content["error"]["code"] == "insufficient_scope"


async def test_a_shutdown_answers_calls_that_wait(stoppable: Service, tmp_path: Path) -> None:
    api = connected(stoppable, tmp_path)
    key = stoppable.key()
    job_id = api.create("acme/shop", "sleepy")
    waiting = asyncio.Event()

    async def hear(_progress: float, _total: float | None, _message: str | None) -> None:
        waiting.set()

    async with over_http(stoppable, key) as client:
        arguments = {"job_id": job_id, "wait_seconds": 300}
        watching = asyncio.create_task(
            client.call_tool("watch_job", arguments, progress_callback=hear)
        )
        await waiting.wait()
        assert await asyncio.to_thread(stoppable.stop) == 0, stoppable.log()
        result = await watching
    assert (result.is_error, result.structured_content["is_final"]) == (False, False)


async def test_stdio_outlives_a_kill_of_the_service(stoppable: Service) -> None:
    key = stoppable.key()
    async with over_stdio(stoppable, key) as client:
        assert (await call(client, "list_repos"))["repos"] == []
        stoppable.kill()
        asked = asyncio.create_task(call(client, "list_agents"))
        await asyncio.to_thread(stoppable.start)
        assert (await asked)["agents"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_each_message_may_reach_another_process(start: StartService) -> None:
    first, second = start("serve", data_dir="first"), start("serve", data_dir="second")
    headers = {
        "Authorization": f"Bearer {first.key()}",
        "Accept": "application/json, text/event-stream",
    }
    client = {"name": "test", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    messages = (("initialize", opening), ("tools/list", {}), ("resources/list", {}))
    for service, (method, params) in zip((first, second, first), messages, strict=True):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = httpx.post(f"{service.root_url}/mcp", json=message, headers=headers, timeout=60)
        assert response.json().get("result"), response.text
        headers["MCP-Protocol-Version"] = "2025-06-18"
