"""Every row of the table of errors, in the one shape and in the decided order."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from agentjobs.organizations.api_keys import revoke_key
from agentjobs.organizations.tokens import API_KEY_PREFIX, new_token
from tests.support.jobs import insert_repo
from tests.unit.web.service import JOB, ORGANIZATION, Service, refusal

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer nonsense",
        "Bearer ajk_ÿ",
        pytest.param(f"Bearer {new_token(API_KEY_PREFIX)}", id="unknown"),
    ],
)
async def test_a_bad_token_is_unauthorized(service: Service, authorization: str) -> None:
    headers = {"Authorization": authorization.encode("latin-1")}
    answer = await service.get("/v1/agents", headers=headers)
    assert refusal(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_no_token_and_two_tokens_are_unauthorized(service: Service) -> None:
    token = service.http.headers.pop("Authorization")
    for headers in ([], [("Authorization", token), ("Authorization", token)]):
        answer = await service.get("/v1/jobs", headers=headers)
        assert refusal(answer) == (401, "unauthorized")


async def test_a_revoked_key_is_unauthorized(service: Service) -> None:
    headers = await service.key()
    assert (await service.get("/v1/agents", headers=headers)).status_code == 200
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    assert refusal(await service.get("/v1/agents", headers=headers)) == (401, "unauthorized")


async def test_the_scheme_is_read_in_any_case(service: Service) -> None:
    headers = {"Authorization": service.http.headers["Authorization"].replace("Bearer", "bEARER")}
    assert (await service.get("/v1/agents", headers=headers)).status_code == 200


async def test_the_token_is_looked_at_before_everything_else(service: Service) -> None:
    answer = await service.post("/v1/jobs", content=b"{", headers={"Authorization": "Bearer x"})
    assert refusal(answer) == (401, "unauthorized")


async def test_a_read_key_may_not_post(service: Service) -> None:
    headers = await service.key(scope="read")
    assert (await service.get("/v1/jobs", headers=headers)).status_code == 200
    answer = await service.post("/v1/jobs", json=JOB, headers=headers)
    assert refusal(answer) == (403, "insufficient_scope")
    answer = await service.post(f"/v1/jobs/{await service.created()}/cancel", headers=headers)
    assert refusal(answer) == (403, "insufficient_scope")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""],
)
async def test_another_content_type_is_refused(service: Service, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    answer = await service.post("/v1/jobs", content=b"{", headers=headers)
    assert refusal(answer) == (415, "unsupported_media_type")


async def test_a_missing_content_type_is_refused(service: Service) -> None:
    answer = await service.post("/v1/jobs", content=b"{}")
    assert refusal(answer) == (415, "unsupported_media_type")


async def test_json_with_a_charset_is_taken(service: Service) -> None:
    headers = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    answer = await service.post("/v1/jobs", content=b"{}", headers=headers)
    assert refusal(answer) == (422, "validation_failed")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{'repo': 1}",
        b'{"repo": NaN}',
        b"\xff\xfe",
        b'{"repo": "\xff"}',
        b'{"repo": "\\ud800"}',
        b'{"repo": "\x00"}',
        b'{"repo": 1e999}',
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"config_override": ' + b'{"a":' * 64 + b"1" + b"}" * 65,
        b'{"config_override": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
async def test_what_is_not_a_json_object_is_invalid_json(service: Service, body: bytes) -> None:
    answer = await service.post("/v1/jobs", content=body, headers=JSON)
    assert refusal(answer) == (400, "invalid_json")


async def test_every_fault_is_in_the_details(service: Service) -> None:
    body = {"agent": 5, "ticket_id": [], "config_override": {"draft": "yes", "prompt": "a\x00b"}}
    headers = {"Idempotency-Key": "ü".encode()}
    answer = await service.post("/v1/jobs", json=body, headers=headers)
    assert refusal(answer) == (422, "validation_failed")
    fields = {fault["field"] for fault in answer.json()["error"]["details"]}
    assert fields == {
        "repo",
        "agent",
        "ticket_id",
        "config_override.draft",
        "config_override.prompt",
        "Idempotency-Key",
    }


async def test_null_characters_are_refused_wherever_they_hide(service: Service) -> None:
    body = {**JOB, "config_override": {"x": [{"y\x00": "z"}], "k": "\x00"}, "other": ["\x00"]}
    answer = await service.post("/v1/jobs", json=body)
    assert refusal(answer) == (422, "validation_failed")
    fields = [fault["field"] for fault in answer.json()["error"]["details"]]
    assert fields == ["config_override.k", "config_override.x[0].y\\0", "other[0]"]


async def test_a_repository_that_is_not_connected(service: Service) -> None:
    answer = await service.post("/v1/jobs", json={**JOB, "repo": "acme/unknown"})
    assert refusal(answer) == (422, "repo_not_connected")


async def test_a_repository_of_another_organization_is_not_connected(service: Service) -> None:
    await service.harness.organization("rival")
    answer = await service.post("/v1/jobs", json={**JOB, "repo": "rival/shop"})
    assert refusal(answer) == (422, "repo_not_connected")


async def test_an_unknown_agent(service: Service) -> None:
    answer = await service.post("/v1/jobs", json={**JOB, "agent": "nobody"})
    assert refusal(answer) == (422, "unknown_agent")


async def test_an_agent_above_the_plan(service: Service) -> None:
    await service.harness.organization("small", plan="free")
    headers = await service.key("small")
    body = {"repo": "small/shop", "agent": "pro-fixer"}
    answer = await service.post("/v1/jobs", json=body, headers=headers)
    assert refusal(answer) == (403, "plan_required")
    assert answer.json()["error"]["details"] == {"plan_required": "pro"}


async def test_a_repository_that_is_still_indexing(service: Service) -> None:
    organization_id = service.caller.organization_id
    await service.harness.db.transact(insert_repo, organization_id, "acme/new", "indexing")
    answer = await service.post("/v1/jobs", json={**JOB, "repo": "acme/new"})
    assert refusal(answer) == (409, "repo_indexing")
    assert int(answer.headers["retry-after"]) > 0


async def test_a_job_of_another_organization_looks_like_none(service: Service) -> None:
    rival = await service.harness.organization("rival")
    theirs = await service.harness.job(rival)
    nobodys = "job_" + "0" * 26
    for suffix in ("", "?wait_seconds=1", "/logs", "/events"):
        found = [await service.get(f"/v1/jobs/{job}{suffix}") for job in (theirs, nobodys)]
        assert [refusal(answer) for answer in found] == [(404, "job_not_found")] * 2
        messages = [answer.json()["error"]["message"] for answer in found]
        assert messages[0].replace(theirs, nobodys) == messages[1]
    for job in (theirs, nobodys):
        assert refusal(await service.post(f"/v1/jobs/{job}/cancel")) == (404, "job_not_found")


@pytest.mark.parametrize(
    "job_id", ["x", "job_", "job_%00", "job_" + "i" * 26, "%C3%28", "%F0%9F%92%A9"]
)
async def test_what_cannot_be_a_job_is_not_found(service: Service, job_id: str) -> None:
    assert (await service.get(f"/v1/jobs/{job_id}")).status_code == 404


async def test_a_finished_job_cannot_be_cancelled(service: Service) -> None:
    job = await service.created()
    first = await service.post(f"/v1/jobs/{job}/cancel")
    assert (first.status_code, first.json()["status"]) == (202, "cancelled")
    assert refusal(await service.post(f"/v1/jobs/{job}/cancel")) == (409, "job_finished")


@pytest.mark.parametrize("size", [64 * 1024 + 1, 1024 * 1024, 1024 * 1024 + 1, 3 * 1024 * 1024])
async def test_a_body_over_the_limit_is_too_large(service: Service, size: int) -> None:
    async def in_pieces():  # type: ignore[no-untyped-def]
        for _ in range(size // 1024):
            yield b" " * 1024
        yield b" " * (size % 1024)

    for content in (b" " * size, in_pieces()):
        answer = await service.post("/v1/jobs", content=content, headers=JSON)
        assert refusal(answer) == (413, "payload_too_large")
        assert ("connection" in answer.headers) is (size > 1024 * 1024)


async def test_a_body_that_never_ends_is_given_up(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.web.api.requests.BODY_SECONDS", 0.01)

    async def dribbling() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Future()

    answer = await service.post("/v1/jobs", content=dribbling(), headers=JSON)
    assert refusal(answer) == (408, "request_timeout")
    assert answer.headers["connection"] == "close"


async def test_a_body_of_exactly_the_limit_is_read(service: Service) -> None:
    body = b"{}".ljust(64 * 1024)
    answer = await service.post("/v1/jobs", content=body, headers=JSON)
    assert refusal(answer) == (422, "validation_failed")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/jobs", "GET, HEAD, POST"),
        ("PUT", "/v1/agents", "GET, HEAD"),
        ("GET", "/v1/jobs/job_1/cancel", "POST"),
        ("OPTIONS", "/v1/repos", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/v1/openapi.json", "GET, HEAD"),
        ("BREW", "/v1/jobs", "GET, HEAD, POST"),
    ],
)
async def test_a_wrong_method_says_which_are_right(
    service: Service, method: str, path: str, allow: str
) -> None:
    answer = await service.http.request(method, path)
    assert refusal(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v1/agents/",
        "/v2/jobs",
        "/v1/agents%0A",
        "/v1/%00",
        "/metrics",
    ],
)
async def test_an_unknown_address_is_not_found(service: Service, path: str) -> None:
    assert refusal(await service.get(path)) == (404, "not_found")


async def test_head_is_get_without_a_body(service: Service) -> None:
    job = await service.created()
    for path in ("/v1/agents", f"/v1/jobs/{job}", f"/v1/jobs/{job}/logs", "/healthz", "/v1/docs"):
        answer: httpx.Response = await service.http.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


async def test_a_service_that_stops_takes_no_new_jobs(service: Service) -> None:
    job = await service.created()
    service.context.stopping.set()
    for path, body in (("/v1/jobs", JOB), (f"/v1/jobs/{job}/cancel", {})):
        answer = await service.post(path, json=body)
        assert refusal(answer) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
    assert (await service.get(f"/v1/jobs/{job}")).status_code == 200
