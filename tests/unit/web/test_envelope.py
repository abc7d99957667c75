"""The outermost layer: whatever happens inside, the answer has an id and the one shape."""

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

from agentjobs.logging_setup import JsonFormatter
from agentjobs.store.database import StoreUnavailable
from agentjobs.web.envelope import Envelope
from tests.unit.web.service import Service, refusal


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


def raising(error: Exception) -> ASGIApp:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    return app


async def test_an_answer_has_a_fresh_request_id(service: Service) -> None:
    found = {(await service.get(path)).headers["x-request-id"] for path in ["/healthz", "/nope"]}
    assert len(found) == 2
    assert all(request_id.startswith("req_") for request_id in found)


async def test_a_sane_incoming_request_id_is_kept(service: Service) -> None:
    for path in ("/healthz", "/nope", "/v1/jobs"):
        answer = await service.get(path, headers={"X-Request-Id": "trace-1.2:3_x"})
        assert answer.headers.get_list("x-request-id") == ["trace-1.2:3_x"]


@pytest.mark.parametrize("sent", ["", "a b", "a" * 129, "<script>", "ü"])
async def test_another_incoming_request_id_is_replaced(service: Service, sent: str) -> None:
    answer = await service.get("/healthz", headers={"X-Request-Id": sent.encode()})
    assert answer.headers["x-request-id"].startswith("req_")


async def test_an_unforeseen_failure_is_told_to_the_log_alone(
    service: Service, log: io.StringIO
) -> None:
    client = client_of(service, raising(RuntimeError("the password is hunter2")))
    answer = await client.get("/")
    assert refusal(answer) == (500, "internal_error")
    assert "hunter2" not in answer.text
    failure = lines(log)[0]
    assert failure["request_id"] == answer.headers["x-request-id"]
    assert "hunter2" in str(failure["traceback"])


async def test_an_unreachable_store_is_unavailable_for_a_while(service: Service) -> None:
    client = client_of(service, raising(StoreUnavailable("disk full at /srv/secret")))
    answer = await client.get("/")
    assert refusal(answer) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "bad_request"), (404, "not_found"), (413, "payload_too_large"), (500, "internal_error")],
)
async def test_inner_http_exceptions_take_the_one_shape(
    service: Service, status: int, code: str
) -> None:
    answer = await client_of(service, raising(HTTPException(status))).get("/")
    assert refusal(answer) == (status, code)


async def test_a_failure_in_mid_answer_leaves_it_unfinished(
    service: Service, log: io.StringIO
) -> None:
    sent = []

    async def inner(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("too late")

    async def send(message: object) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    await Envelope(inner, service.context)(scope, None, send)  # type: ignore[arg-type]
    assert len(sent) == 1
    assert "too late" in log.getvalue()


async def test_a_client_that_left_is_no_failure(service: Service, log: io.StringIO) -> None:
    async def send(_message: object) -> None:
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    envelope = Envelope(raising(ClientDisconnect()), service.context)
    await envelope(scope, None, send)  # type: ignore[arg-type]
    assert [line["status"] for line in lines(log)] == [499]


async def test_the_access_log_says_who_got_what(service: Service, log: io.StringIO) -> None:
    answer = await service.get("/v1/repos?limit=5", headers={"X-Request-Id": "abc"})
    assert answer.status_code == 200
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
