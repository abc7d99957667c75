"""The webhook helpers inside the real frameworks, with signed requests."""

import io
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import django.conf
import flask
import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient as AsyncDjangoClient
from django.test import Client as DjangoClient
from django.urls import path
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from werkzeug.test import create_environ, run_wsgi_app

from agentjobs_client import WebhookEvent
from agentjobs_client.frameworks import flask as flask_webhooks
from agentjobs_client.frameworks import starlette as starlette_webhooks
from agentjobs_client.frameworks.django import webhook_view
from service.tests.unit.client.test_webhooks import BODY, NEW, OLD, signed, without


class Reply(NamedTuple):
    status: int
    text: str


class Application:
    """What the applications below have in common."""

    received: list[WebhookEvent]
    # Some other code may have read the body before the helper does.
    reads_body_first: bool


Post = Callable[[bytes, dict[str, str]], Reply]
application = Application()


@pytest.fixture(autouse=True)
def _new_application() -> None:
    application.received = []
    application.reads_body_first = False


async def starlette_view(request: Request) -> Response:
    if application.reads_body_first:
        await request.body()
    application.received.append(await starlette_webhooks.read_webhook(request, [OLD, NEW]))
    return Response(status_code=204)


def in_starlette() -> Post:
    return _test_client(Starlette(routes=[Route("/hook", starlette_view, methods=["POST"])]))


def in_fastapi() -> Post:
    app = FastAPI()
    app.post("/hook")(starlette_view)
    return _test_client(app)


def _test_client(app: Any) -> Post:
    client = TestClient(app)

    def post(body: bytes, headers: dict[str, str]) -> Reply:
        response = client.post("/hook", content=body, headers=headers)
        return Reply(response.status_code, response.text)

    return post


def in_flask() -> Post:
    app = flask.Flask(__name__)

    @app.post("/hook")
    def receive() -> tuple[str, int]:
        if application.reads_body_first:
            flask.request.get_data()
        application.received.append(flask_webhooks.read_webhook(flask.request, [OLD, NEW]))
        return "", 204

    def post(body: bytes, headers: dict[str, str]) -> Reply:
        response = app.test_client().post("/hook", data=body, headers=headers)
        return Reply(response.status_code, response.text)

    return post


@webhook_view([OLD, NEW])
def django_view(request: HttpRequest, event: WebhookEvent) -> HttpResponse:
    application.received.append(event)
    return HttpResponse(status=204)


@webhook_view([OLD, NEW])
async def async_django_view(request: HttpRequest, event: WebhookEvent) -> HttpResponse:
    application.received.append(event)
    return HttpResponse(status=204)


def read_body_first(get_response: Any) -> Any:
    def middleware(request: HttpRequest) -> Any:
        if application.reads_body_first:
            assert request.body is not None
        return get_response(request)

    return middleware


urlpatterns = [path("hook", django_view), path("async-hook", async_django_view)]


def _set_up_django() -> None:
    if not django.conf.settings.configured:
        middleware = ["django.middleware.csrf.CsrfViewMiddleware", f"{__name__}.read_body_first"]
        django.conf.settings.configure(
            ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=middleware
        )
        django.setup()


def in_django() -> Post:
    _set_up_django()

    def post(body: bytes, headers: dict[str, str]) -> Reply:
        client = DjangoClient(enforce_csrf_checks=True)
        response = client.post("/hook", body, content_type="application/json", headers=headers)
        return Reply(response.status_code, response.text)

    return post


def in_async_django() -> Post:
    _set_up_django()

    def post(body: bytes, headers: dict[str, str]) -> Reply:
        client = AsyncDjangoClient(enforce_csrf_checks=True)
        response = async_to_sync(client.post)(
            "/async-hook", body, content_type="application/json", headers=headers
        )
        return Reply(response.status_code, response.text)

    return post


@pytest.fixture(params=[in_starlette, in_fastapi, in_flask, in_django, in_async_django])
def post(request: pytest.FixtureRequest) -> Post:
    return request.param()


def headers_now(secret: str = OLD, body: bytes = BODY, **changes: str) -> dict[str, str]:
    return without(signed(secret, body, int(time.time()), **changes), "Content-Type")


@pytest.mark.parametrize("first", [False, True], ids=["unread", "read before"])
def test_a_signed_delivery_reaches_the_view_as_an_event(post, first):
    application.reads_body_first = first
    assert post(BODY, headers_now()).status == 204
    assert post(BODY, headers_now(NEW)).status == 204
    assert [(event.event, event.job_id, event.sequence) for event in application.received] == [
        ("job.completed", "job_1", 3)
    ] * 2


def test_a_forged_delivery_is_refused_and_told_why(post):
    reply = post(BODY.replace(b"acme", b"evil"), headers_now())
    assert reply.status == 401
    assert "X-Service-Signature-256 does not match" in reply.text
    assert post(BODY, {}).status == 401
    assert post(b"", {}).status == 401
    assert application.received == []


def test_a_clock_that_is_off_is_named(post):
    reply = post(BODY, without(signed(at=int(time.time()) - 3600), "Content-Type"))
    assert reply.status == 401
    assert "check the clocks" in reply.text


def test_a_signed_body_that_is_no_event_is_a_bad_request(post):
    assert post(b"{}", headers_now(body=b"{}")).status == 400
    assert application.received == []


def test_a_body_that_is_too_large_is_refused_before_it_is_verified(post):
    body = BODY + b" " * 65_536
    reply = post(body, headers_now(body=body))
    assert reply.status == 413
    assert "65536 bytes" in reply.text
    assert application.received == []


def test_django_accepts_only_post():
    _set_up_django()
    response = DjangoClient().get("/hook")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_flask_reads_no_more_than_the_limit_of_a_body_without_a_length():
    app = flask.Flask(__name__)

    class Endless(io.RawIOBase):
        count = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.count += len(buffer)
            buffer[:] = b" " * len(buffer)
            return len(buffer)

    @app.post("/hook")
    def receive() -> str:
        flask_webhooks.read_webhook(flask.request, OLD)
        return ""

    endless = Endless()
    environ = create_environ("/hook", method="POST")
    environ |= {"wsgi.input": endless, "wsgi.input_terminated": True}
    environ.pop("CONTENT_LENGTH", None)
    _, status, _ = run_wsgi_app(app, environ)
    assert status.startswith("413")
    assert endless.count < 200_000
