"""The outermost layer: every response has a request id, and every error the API's shape."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentjobs.store.database import StoreUnavailable
from agentjobs.web.envelope import Envelope
from agentjobs_runtime.logging_setup import JsonFormatter, LineHandler
from service.tests.unit.web.service import Service, refusal


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("agentjobs")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def lines(log: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def client_of(service: Service, inner: ASGIApp, client: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Envelope(inner, service.context), client=(client, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://testserver")


def raising_app(error: Exception) -> ASGIApp:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    return app


async def test_a_response_has_a_new_request_id(service: Service) -> None:
    request_ids = {
        (await service.get(path)).headers["x-request-id"] for path in ["/healthz", "/nope"]
    }
    assert len(request_ids) == 2
    assert all(request_id.startswith("req_") for request_id in request_ids)


async def test_a_valid_incoming_request_id_is_kept(service: Service) -> None:
    for path in ("/healthz", "/nope", "/v1/jobs"):
        response = await service.get(path, headers={"X-Request-Id": "trace-1.2:3_x"})
        assert response.headers.get_list("x-request-id") == ["trace-1.2:3_x"]


@pytest.mark.parametrize("sent", ["", "a b", "a" * 129, "<script>", "ü"])
async def test_an_invalid_incoming_request_id_is_replaced(service: Service, sent: str) -> None:
    response = await service.get("/healthz", headers={"X-Request-Id": sent.encode()})
    assert response.headers["x-request-id"].startswith("req_")


async def test_an_unexpected_error_is_only_logged(service: Service, log: io.StringIO) -> None:
    client = client_of(service, raising_app(RuntimeError("the password is hunter2")))
    response = await client.get("/")
    assert refusal(response) == (500, "internal_error")
    assert "hunter2" not in response.text
    failure = lines(log)[0]
    assert failure["request_id"] == response.headers["x-request-id"]
    assert "hunter2" in str(failure["traceback"])


async def test_an_unreachable_store_responds_with_retry_after(service: Service) -> None:
    client = client_of(service, raising_app(StoreUnavailable("disk full at /srv/secret")))
    response = await client.get("/")
    assert refusal(response) == (503, "unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert "secret" not in response.text


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "bad_request"), (404, "not_found"), (405, "method_not_allowed")],
)
async def test_http_exceptions_use_the_error_shape(
    service: Service, status: int, code: str
) -> None:
    response = await client_of(service, raising_app(HTTPException(status))).get("/")
    assert refusal(response) == (status, code)


async def test_an_error_during_a_response_leaves_it_incomplete(
    service: Service, log: io.StringIO
) -> None:
    sent = []

    async def inner(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("too late")

    async def send(message: object) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(b"host", b"testserver")],
        "query_string": b"",
    }
    await Envelope(inner, service.context)(scope, None, send)  # type: ignore[arg-type]
    assert len(sent) == 1
    assert "too late" in log.getvalue()


async def test_a_client_that_disconnects_is_not_an_error(
    service: Service, log: io.StringIO
) -> None:
    async def send(_message: object) -> None:
        raise AssertionError

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(b"host", b"testserver")],
        "query_string": b"",
    }
    envelope = Envelope(raising_app(ClientDisconnect()), service.context)
    await envelope(scope, None, send)  # type: ignore[arg-type]
    assert [line["status"] for line in lines(log)] == [499]


async def test_the_access_log_names_request_key_and_status(
    service: Service, log: io.StringIO
) -> None:
    response = await service.get("/v1/repos?limit=5", headers={"X-Request-Id": "abc"})
    assert response.status_code == 200
    (line,) = lines(log)
    assert {name: line[name] for name in ("request_id", "method", "path", "status", "client")} == {
        "request_id": "abc",
        "method": "GET",
        "path": "/v1/repos",
        "status": 200,
        "client": "127.0.0.1",
    }
    assert line["organization"] == "acme"
    assert str(line["key_id"]).startswith("key_")
    token = service.http.headers["Authorization"].split()[1]
    assert token not in log.getvalue()


async def test_a_line_of_the_access_log_is_the_same_through_any_handler(
    service: Service, log: io.StringIO
) -> None:
    async def line_of_request() -> list[tuple[str, object]]:
        log.truncate(log.seek(0))
        await service.get("/v1/repos", headers={"X-Request-Id": "abc"})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # Other modules may log something at the same time.
        (line,) = [line for line in lines(log) if line.get("request_id") == "abc"]
        return [
            (name, value) for name, value in line.items() if name not in ("time", "duration_ms")
        ]

    root, agentjobs = logging.getLogger(), logging.getLogger("agentjobs")
    through_logging = await line_of_request()
    root_handlers, handlers = root.handlers[:], agentjobs.handlers[:]
    handler = LineHandler(log)
    handler.setFormatter(JsonFormatter())
    root.handlers[:], agentjobs.handlers[:] = [handler], []
    try:
        assert await line_of_request() == through_logging
    finally:
        root.handlers[:], agentjobs.handlers[:] = root_handlers, handlers


async def test_probes_are_not_logged_unless_they_fail(service: Service, log: io.StringIO) -> None:
    await service.get("/healthz")
    assert lines(log) == []
    service.context.stopping.set()
    await service.get("/readyz")
    assert [line["status"] for line in lines(log)] == [503]


async def test_inner_applications_find_the_context(service: Service) -> None:
    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["app"].state.context is service.context
        await Response("found")(scope, receive, send)

    assert (await client_of(service, inner).get("/")).text == "found"


@pytest.mark.parametrize("hosts", [[], ["a.example", "b.example"], ["a.example"] * 2, [""], [" "]])
@pytest.mark.parametrize("path", ["/v1/agents", "/healthz", "/", "/acme/shop.git/info/refs"])
async def test_a_request_needs_exactly_one_host_header(
    service: Service, path: str, hosts: list[str]
) -> None:
    request = service.http.build_request("GET", path)
    kept = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
    request.headers = httpx.Headers([*kept, *((b"Host", host.encode()) for host in hosts)])

    response = await service.http.send(request)

    assert refusal(response) == (400, "bad_request")
    assert "Host" in response.json()["error"]["message"]
