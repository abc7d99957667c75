"""`agentjobs mcp` as a client of the API, also of one that does not answer as expected."""

import signal
import subprocess
import sys
from collections.abc import Callable

import httpx
import pytest
from mcp_types import CallToolResult

from agentjobs.web.mcp.server import build_server
from agentjobs.web.mcp.tool_client import ToolClient, current_client

Answer = Callable[[httpx.Request], httpx.Response]

ME = {
    "organization": {"id": "org_1", "name": "acme"},
    "plan": {"name": "free", "concurrent_jobs": 1},
    "key": {"id": "key_1", "name": "mcp", "scopes": ["read"], "expires_at": None},
    "limits": {},
}


def refuse_connection(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def client_with(answer: Answer) -> ToolClient:
    return ToolClient(
        "http://service.example",
        "ajk_1",
        transport=httpx.MockTransport(answer),
        pause=_no_pause,
    )


async def _no_pause(_: float) -> None:
    pass


@pytest.mark.parametrize(
    ("answer", "code", "part"),
    [
        (refuse_connection, "service_unreachable", "http://service.example/v1"),
        (
            lambda _: httpx.Response(200, html="<h1>Sign in</h1>"),
            "unexpected_response",
            "web page",
        ),
        (lambda _: httpx.Response(502, html="<h1>Bad gateway</h1>"), "unexpected_response", "502"),
        (lambda _: httpx.Response(302, headers={"Location": "/x"}), "unexpected_response", "/x"),
        (
            lambda _: httpx.Response(
                401, json={"error": {"code": "unauthorized", "message": "No."}}
            ),
            "unauthorized",
            "No.",
        ),
    ],
)
async def test_a_service_that_does_not_answer_is_an_error_that_says_why(
    answer: Answer, code: str, part: str
) -> None:
    async with client_with(answer) as client:
        current_client.set(client)
        result = await build_server().call_tool("list_agents", {})
        assert isinstance(result, CallToolResult)
        error = result.structured_content["error"]
        assert (result.is_error, error["code"], part in error["message"]) == (True, code, True)
        assert not await client.is_read_only()


async def test_the_scopes_of_the_key_are_read_once() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json=ME)

    async with client_with(answer) as client:
        assert await client.is_read_only()
        assert await client.is_read_only()
    assert asked == ["/v1/me"]


async def test_a_lost_response_does_not_create_a_second_job() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.ReadError("connection reset")
        receipt = {"job_id": "job_1", "status": "queued", "estimated_start_ms": 0}
        return httpx.Response(202, json=receipt)

    async with client_with(answer) as client:
        current_client.set(client)
        for _ in range(2):
            await build_server().call_tool("create_job", {"repo": "acme/shop", "agent": "fixer"})
    first, second, third = keys
    assert first == second != third


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "agentjobs login"),
        ({"AGENTJOBS_URL": "http://127.0.0.1:9"}, "AGENTJOBS_API_KEY is not"),
        ({"AGENTJOBS_URL": "ftp://x", "AGENTJOBS_API_KEY": "k"}, "not a valid base URL"),
    ],
)
def test_a_wrong_setting_ends_it_at_once(
    environment: dict[str, str], reason: str, tmp_path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentjobs.cli.main", "mcp"],
        env={"HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, reason in done.stderr) == (2, "", True), done.stderr


def test_ctrl_c_ends_it_while_it_waits_for_messages(tmp_path) -> None:
    environment = {"HOME": str(tmp_path), "AGENTJOBS_URL": "http://x", "AGENTJOBS_API_KEY": "k"}
    with subprocess.Popen(
        [sys.executable, "-m", "agentjobs.cli.main", "mcp"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert '"id":1' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
