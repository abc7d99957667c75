"""Every error of the API, in its shape and order of precedence."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from agentjobs.organizations.api_keys import revoke_key
from agentjobs.organizations.tokens import API_KEY_PREFIX, new_token
from agentjobs.web.api.requests import MAX_NULL_FAULTS
from service.tests.unit.web.service import JOB, ORGANIZATION, Service, refusal
from tests.support.jobs import insert_repo

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
async def test_an_invalid_token_is_unauthorized(service: Service, authorization: str) -> None:
    headers = {"Authorization": authorization.encode("latin-1")}
    response = await service.get("/v1/agents", headers=headers)
    assert refusal(response) == (401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_no_token_and_two_tokens_are_unauthorized(service: Service) -> None:
    token = service.http.headers.pop("Authorization")
    for headers in ([], [("Authorization", token), ("Authorization", token)]):
        response = await service.get("/v1/jobs", headers=headers)
        assert refusal(response) == (401, "unauthorized")


async def test_a_revoked_key_is_unauthorized(service: Service) -> None:
    headers = await service.key()
    assert (await service.get("/v1/agents", headers=headers)).status_code == 200
    await revoke_key(service.harness.db, ORGANIZATION, headers["Authorization"].split()[1])
    assert refusal(await service.get("/v1/agents", headers=headers)) == (401, "unauthorized")


async def test_the_scheme_is_read_in_any_case(service: Service) -> None:
    headers = {"Authorization": service.http.headers["Authorization"].replace("Bearer", "bEARER")}
    assert (await service.get("/v1/agents", headers=headers)).status_code == 200


async def test_the_token_is_checked_before_the_body(service: Service) -> None:
    response = await service.post("/v1/jobs", content=b"{", headers={"Authorization": "Bearer x"})
    assert refusal(response) == (401, "unauthorized")


async def test_a_read_key_may_not_post(service: Service) -> None:
    headers = await service.key(scope="read")
    assert (await service.get("/v1/jobs", headers=headers)).status_code == 200
    response = await service.post("/v1/jobs", json=JOB, headers=headers)
    assert refusal(response) == (403, "insufficient_scope")
    response = await service.post(f"/v1/jobs/{await service.create_job()}/cancel", headers=headers)
    assert refusal(response) == (403, "insufficient_scope")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""],
)
async def test_another_content_type_is_refused(service: Service, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    response = await service.post("/v1/jobs", content=b"{", headers=headers)
    assert refusal(response) == (415, "unsupported_media_type")


async def test_a_missing_content_type_is_refused(service: Service) -> None:
    response = await service.post("/v1/jobs", content=b"{}")
    assert refusal(response) == (415, "unsupported_media_type")


async def test_json_with_a_charset_is_accepted(service: Service) -> None:
    headers = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    response = await service.post("/v1/jobs", content=b"{}", headers=headers)
    assert refusal(response) == (422, "validation_failed")


NO_JSON_OBJECTS = [
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
]


async def test_a_body_that_is_not_a_json_object_is_invalid_json(
    service: Service, subtests: pytest.Subtests
) -> None:
    for body in NO_JSON_OBJECTS:
        with subtests.test(repr(body[:20])):
            response = await service.post("/v1/jobs", content=body, headers=JSON)
            assert refusal(response) == (400, "invalid_json")


async def test_every_fault_is_in_the_details(service: Service) -> None:
    body = {"agent": 5, "ticket_id": [], "config_override": {"draft": "yes", "prompt": "a\x00b"}}
    headers = {"Idempotency-Key": "ü".encode()}
    response = await service.post("/v1/jobs", json=body, headers=headers)
    assert refusal(response) == (422, "validation_failed")
    fields = {fault["field"] for fault in response.json()["error"]["details"]}
    assert fields == {
        "repo",
        "agent",
        "ticket_id",
        "config_override.draft",
        "config_override.prompt",
        "Idempotency-Key",
    }


async def test_null_characters_are_refused_in_every_field(service: Service) -> None:
    body = {**JOB, "config_override": {"x": [{"y\x00": "z"}], "k": "\x00"}, "other": ["\x00"]}
    response = await service.post("/v1/jobs", json=body)
    assert refusal(response) == (422, "validation_failed")
    fields = [fault["field"] for fault in response.json()["error"]["details"]]
    assert fields == ["config_override.k", "config_override.x[0].y\\0", "other[0]"]


async def test_many_null_characters_below_a_long_name_give_a_short_answer(service: Service) -> None:
    body = {**JOB, "x" * 20_000: ["\x00"] * 5_000}
    response = await service.post("/v1/jobs", json=body)
    assert refusal(response) == (422, "validation_failed")
    assert len(response.json()["error"]["details"]) == MAX_NULL_FAULTS
    assert len(response.content) < 64 * 1024


async def test_a_repository_that_is_not_connected(service: Service) -> None:
    response = await service.post("/v1/jobs", json={**JOB, "repo": "acme/unknown"})
    assert refusal(response) == (422, "repo_not_connected")


async def test_a_repository_of_another_organization_is_not_connected(service: Service) -> None:
    await service.harness.organization("rival")
    response = await service.post("/v1/jobs", json={**JOB, "repo": "rival/shop"})
    assert refusal(response) == (422, "repo_not_connected")


async def test_an_unknown_agent(service: Service) -> None:
    response = await service.post("/v1/jobs", json={**JOB, "agent": "nobody"})
    assert refusal(response) == (422, "unknown_agent")


async def test_an_agent_above_the_plan(service: Service) -> None:
    await service.harness.organization("small", plan="free")
    headers = await service.key("small")
    body = {"repo": "small/shop", "agent": "pro-fixer"}
    response = await service.post("/v1/jobs", json=body, headers=headers)
    assert refusal(response) == (403, "plan_required")
    assert response.json()["error"]["details"] == {"plan_required": "pro"}


async def test_a_repository_that_is_still_indexing(service: Service) -> None:
    organization_id = service.caller.organization_id
    await service.harness.db.transact(insert_repo, organization_id, "acme/new", "indexing")
    response = await service.post("/v1/jobs", json={**JOB, "repo": "acme/new"})
    assert refusal(response) == (409, "repo_indexing")
    assert int(response.headers["retry-after"]) > 0


async def test_a_job_of_another_organization_is_not_found(service: Service) -> None:
    rival = await service.harness.organization("rival")
    other_job = await service.harness.job(rival)
    unknown_job = "job_" + "0" * 26
    for suffix in ("", "?wait_seconds=1", "/logs", "/events"):
        responses = [
            await service.get(f"/v1/jobs/{job}{suffix}") for job in (other_job, unknown_job)
        ]
        assert [refusal(response) for response in responses] == [(404, "job_not_found")] * 2
        messages = [response.json()["error"]["message"] for response in responses]
        assert messages[0].replace(other_job, unknown_job) == messages[1]
    for job in (other_job, unknown_job):
        assert refusal(await service.post(f"/v1/jobs/{job}/cancel")) == (404, "job_not_found")


@pytest.mark.parametrize(
    "job_id", ["x", "job_", "job_%00", "job_" + "i" * 26, "%C3%28", "%F0%9F%92%A9"]
)
async def test_an_invalid_job_id_is_not_found(service: Service, job_id: str) -> None:
    assert (await service.get(f"/v1/jobs/{job_id}")).status_code == 404


async def test_a_finished_job_cannot_be_cancelled(service: Service) -> None:
    job = await service.create_job()
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
        response = await service.post("/v1/jobs", content=content, headers=JSON)
        assert refusal(response) == (413, "payload_too_large")
        assert ("connection" in response.headers) is (size > 1024 * 1024)


async def test_a_body_that_never_ends_times_out(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.web.api.requests.BODY_SECONDS", 0.01)

    async def endless_body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Future()

    response = await service.post("/v1/jobs", content=endless_body(), headers=JSON)
    assert refusal(response) == (408, "request_timeout")
    assert response.headers["connection"] == "close"


async def test_a_body_of_exactly_the_limit_is_read(service: Service) -> None:
    body = b"{}".ljust(64 * 1024)
    response = await service.post("/v1/jobs", content=body, headers=JSON)
    assert refusal(response) == (422, "validation_failed")


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
async def test_a_wrong_method_lists_the_allowed_methods(
    service: Service, method: str, path: str, allow: str
) -> None:
    response = await service.http.request(method, path)
    assert refusal(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == allow


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
    job = await service.create_job()
    for path in ("/v1/agents", f"/v1/jobs/{job}", f"/v1/jobs/{job}/logs", "/healthz", "/v1/docs"):
        response: httpx.Response = await service.http.head(path)
        assert (response.status_code, response.content) == (200, b"")


async def test_a_stopping_service_accepts_no_jobs(service: Service) -> None:
    job = await service.create_job()
    service.context.stopping.set()
    for path, body in (("/v1/jobs", JOB), (f"/v1/jobs/{job}/cancel", {})):
        response = await service.post(path, json=body)
        assert refusal(response) == (503, "unavailable")
        assert int(response.headers["retry-after"]) > 0
    assert (await service.get(f"/v1/jobs/{job}")).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "x", "GZIP"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/jobs"), ("GET", "/v1/jobs"), ("POST", "/v1/jobs/job_1/cancel")],
)
async def test_a_compressed_body_is_refused(
    service: Service, method: str, path: str, encoding: str
) -> None:
    headers = {**JSON, "Content-Encoding": encoding}
    response = await service.http.request(method, path, content=b"{}", headers=headers)
    assert refusal(response) == (415, "unsupported_media_type")
    assert "compression" in response.json()["error"]["message"]


async def test_two_content_encodings_are_refused_and_identity_is_accepted(service: Service) -> None:
    both = [("Content-Encoding", "identity"), ("Content-Encoding", "gzip")]
    response = await service.http.request("GET", "/v1/jobs", headers=both)
    assert refusal(response) == (415, "unsupported_media_type")
    response = await service.get("/v1/jobs", headers={"Content-Encoding": "Identity"})
    assert response.status_code == 200


async def test_a_compressed_form_is_refused(service: Service) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/x-www-form-urlencoded"}
    response = await service.post("/sign-in", content=b"email=a", headers=headers)
    assert refusal(response) == (415, "unsupported_media_type")


async def test_a_key_is_unauthorized_outside_its_networks(service: Service) -> None:
    # The client's address is 127.0.0.1.
    inside = await service.key(allowed_networks=["127.0.0.0/8"])
    assert (await service.get("/v1/agents", headers=inside)).status_code == 200
    outside = await service.key(allowed_networks=["192.0.2.0/24"])
    for path in ("/v1/agents", "/git/acme/acme/shop.git/info/refs?service=git-upload-pack"):
        response = await service.get(path, headers=outside)
        assert refusal(response) == (401, "unauthorized")
        assert "127.0.0.1" in response.json()["error"]["message"]
        assert "www-authenticate" in response.headers
    # Without a trusted proxy, the header has no effect.
    spoofed = {**outside, "X-Forwarded-For": "192.0.2.1"}
    assert refusal(await service.get("/v1/agents", headers=spoofed)) == (401, "unauthorized")
