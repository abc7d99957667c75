"""The real Claude Code and opencode as MCP clients of a real service, with a scripted model."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_messages import ModelReply, ToolCall
from tests.support.model_server import ModelServer, model_server
from tests.support.paths import PROJECT
from tests.support.service import PROGRAM, Api, Service, connected

PROGRAMS = PROJECT / ".agents" / "node_modules" / ".bin"
TASK = "Start a job on acme/shop and wait for the one that runs."
WAIT = "WaitForMcpServers"
SECONDS = 300


@dataclass(frozen=True)
class Connection:
    service: Service
    key: str
    is_remote: bool

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def environment(self) -> dict[str, str]:
        return {"AGENTJOBS_URL": self.service.base_url, "AGENTJOBS_API_KEY": self.key}

    @property
    def url(self) -> str:
        return f"{self.service.root_url}/mcp"


@dataclass(frozen=True)
class Program:
    """How to run a client once, and how it calls the tools of the server `agentjobs`."""

    name: str
    tool: Callable[[str], str]
    command: Callable[[Connection, Path], list[str]]
    environment: Callable[[Connection, str], dict[str, str]]


def _claude_command(connection: Connection, directory: Path) -> list[str]:
    local = {"command": PROGRAM, "args": ["mcp"], "env": connection.environment}
    remote = {"type": "http", "url": connection.url, "headers": connection.headers}
    configuration = directory / "mcp.json"
    server = remote if connection.is_remote else local
    configuration.write_text(json.dumps({"mcpServers": {"agentjobs": server}}))
    return [
        *("claude", "--print", "--output-format", "json", "--no-session-persistence"),
        *("--strict-mcp-config", "--mcp-config", str(configuration)),
        *("--allowedTools", "mcp__agentjobs", "--", TASK),
    ]


def _claude_environment(_connection: Connection, model_url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": "sk-scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def _opencode_command(_connection: Connection, _directory: Path) -> list[str]:
    options = ("--format", "json", "--auto", "--pure", "--title", "test")
    return ["opencode", "run", *options, "--model", "anthropic/scripted", TASK]


def _opencode_environment(connection: Connection, model_url: str) -> dict[str, str]:
    local = {"type": "local", "command": [PROGRAM, "mcp"], "environment": connection.environment}
    remote = {
        "type": "remote",
        "url": connection.url,
        "oauth": False,
        "headers": connection.headers,
    }
    provider = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": "sk-scripted"},
        "models": {"scripted": {}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "small_model": "anthropic/scripted",
        "enabled_providers": ["anthropic"],
        "provider": {"anthropic": provider},
        "mcp": {"agentjobs": remote if connection.is_remote else local},
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


CLIENTS = (
    Program("claude", "mcp__agentjobs__{}".format, _claude_command, _claude_environment),
    Program("opencode", "agentjobs_{}".format, _opencode_command, _opencode_environment),
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path / "data", {"AGENTJOBS_DRAIN_GRACE_SECONDS": "0"}).start()
    yield running
    running.stop()


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Api:
    return connected(service, tmp_path)


async def run_client(
    client: Program, connection: Connection, model: ModelServer, directory: Path
) -> str:
    home = directory / "home"
    home.mkdir()
    arguments = client.command(connection, directory)
    process = await asyncio.create_subprocess_exec(
        str(PROGRAMS / arguments[0]),
        *arguments[1:],
        cwd=home,
        env={
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(home),
            **client.environment(connection, model.url),
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode()


def tool_results(model: ModelServer) -> list[str]:
    """What the client gave back to the model for each call of a tool, in order."""
    conversation = max((request.body["messages"] for request in model.requests), key=len)
    blocks: list[Any] = [
        block
        for message in conversation
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("is_remote", [True, False], ids=["http", "stdio"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_model_creates_and_watches_jobs(
    client: Program, is_remote: bool, service: Service, api: Api, tmp_path: Path
) -> None:
    running = api.create("acme/shop", "edit")
    calls = (
        ToolCall(client.tool("list_repos"), {}),
        ToolCall(
            client.tool("create_job"),
            {"repo": "acme/shop", "agent": "edit", "prompt": "Go on.", "labels": {"by": "model"}},
        ),
        ToolCall(client.tool("watch_job"), {"job_id": running, "wait_seconds": 60}),
        ToolCall(client.tool("read_diff"), {"job_id": running}),
    )
    named = client.tool("create_job")
    script = [
        *(ModelReply(tool_calls=[call], when=named) for call in calls),
        # Claude Code starts before it is connected, and has a tool to wait for that.
        ModelReply(tool_calls=[ToolCall(WAIT)], when=WAIT, unless=named, always=True),
        ModelReply(text="All is done.", always=True),
    ]
    connection = Connection(service, service.key(), is_remote)
    async with model_server(script) as model:
        output = await run_client(client, connection, model, tmp_path)
        assert "All is done." in output, output
        repos, created, watched, diff = tool_results(model)[-len(calls) :]
    assert "acme/shop" in repos
    (job,) = api.http.get("/jobs", params={"label.by": "model"}).json()["jobs"]
    assert job["job_id"] in created
    assert job["config_override"] == {"prompt": "Go on."}
    assert "completed" in watched
    assert "+changed" in diff
    api.wait_status(job["job_id"], "completed")
