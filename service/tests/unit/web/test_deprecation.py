"""A deprecated operation or parameter announces it in its responses and in the document."""

import datetime
from typing import Annotated

import httpx
import msgspec
import pytest
from starlette.responses import Response

from agentjobs.web.api import operations
from agentjobs.web.api.deprecation import DEPRECATED, Deprecation
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operation import Operation, SuccessResponse
from agentjobs.web.api.operations import BASE, routes
from agentjobs.web.api.query import read_query
from agentjobs.web.application import ServiceRouter
from agentjobs.web.envelope import Envelope
from agentjobs_runtime.json_fields import doc
from service.tests.unit.web.service import Service


def day(year: int, month: int) -> datetime.datetime:
    return datetime.datetime(year, month, 1, tzinfo=datetime.UTC)


OLDER = Deprecation(day(2025, 7), day(2026, 7), "Use `state`.")


@pytest.fixture(autouse=True)
def _deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        DEPRECATED, "old", Deprecation(day(2026, 1), day(2027, 2), "Use `GET /new`.")
    )
    monkeypatch.setitem(DEPRECATED, "old?status", OLDER)
    monkeypatch.setitem(DEPRECATED, "current?status", OLDER)


class OldQuery(msgspec.Struct, frozen=True):
    status: Annotated[str | None, doc("The status.")] = None
    limit: Annotated[int, doc("At most this many.")] = 1


class Answer(msgspec.Struct, frozen=True):
    ok: Annotated[bool, doc("Whether it works.")]


async def answer(call: Call) -> Response:
    read_query(call.scope, OldQuery)
    return Reply(200, Answer(True))


def operation(name: str) -> Operation:
    return Operation(
        path=f"/{name}",
        handler=answer,
        id=name,
        summary="Ask",
        description="Asks.",
        query=OldQuery,
        response=SuccessResponse("The answer.", Answer),
    )


OPERATIONS = (operation("old"), operation("current"))


async def get(service: Service, path: str) -> httpx.Response:
    app = Envelope(ServiceRouter(routes(service.context, OPERATIONS), []), service.context)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://testserver", headers=service.http.headers
    ) as http:
        return await http.get(BASE + path)


def announced(response: httpx.Response) -> list[str | None]:
    return [response.headers.get(name) for name in ("deprecation", "sunset", "link")]


@pytest.mark.parametrize(("query", "status"), [("", 200), ("?limit=x", 422)])
async def test_every_response_of_a_deprecated_operation_announces_it(
    service: Service, query: str, status: int
) -> None:
    response = await get(service, f"/old{query}")
    assert response.status_code == status
    assert announced(response) == [
        "@1767225600",
        "Mon, 01 Feb 2027 00:00:00 GMT",
        '</v1/docs#old>; rel="deprecation"; type="text/html"',
    ]


async def test_a_deprecated_parameter_is_announced_when_it_is_used(service: Service) -> None:
    assert announced(await get(service, "/current?limit=1")) == [None, None, None]
    for query in ("status=", "limit=1&st%61tus=queued"):
        response = await get(service, f"/current?{query}")
        assert announced(response)[:2] == ["@1751328000", "Wed, 01 Jul 2026 00:00:00 GMT"]


async def test_the_earliest_removal_is_announced(service: Service) -> None:
    response = await get(service, "/old?status=queued")
    assert announced(response)[1] == "Wed, 01 Jul 2026 00:00:00 GMT"


def test_the_document_marks_what_is_deprecated() -> None:
    document = build_document((*operations.OPERATIONS, *OPERATIONS), base=BASE)
    paths = document["paths"]
    old, current = paths["/old"]["get"], paths["/current"]["get"]
    assert old["deprecated"] is True
    assert old["description"].endswith(
        "Deprecated since 2026-01-01; removed on 2027-02-01. Use `GET /new`."
    )
    assert "deprecated" not in current
    parameters = {each["name"]: each for each in current["parameters"]}
    assert parameters["status"]["deprecated"] is True
    assert "Use `state`." in parameters["status"]["description"]
    assert "deprecated" not in parameters["limit"]


def test_everything_deprecated_is_announced_for_at_least_a_year() -> None:
    for deprecation in DEPRECATED.values():
        assert deprecation.sunset - deprecation.since >= datetime.timedelta(days=365)
