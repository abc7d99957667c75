"""The job endpoints."""

import pytest

from service.tests.unit.web.service import JOB, Service, refusal

JOB_FIELDS = {
    "job_id",
    "status",
    "agent",
    "pr_url",
    "pr_number",
    "started_at",
    "completed_at",
    "repo",
    "ticket_id",
    "created_at",
    "attempt",
    "error",
    "usage",
    "verification",
    "queue_reason",
    "follows",
    "cause",
    "pr_state",
    "ticket",
    "warnings",
    "environment",
    "report_markdown",
    "report_json",
    "phases",
    "branch",
    "base_commit",
    "head_commit",
    "config_override",
    "labels",
    "elapsed_ms",
    "queue_position",
    "estimated_start_ms",
}


async def test_a_created_job_is_queued_and_can_be_read(service: Service) -> None:
    response = await service.post("/v1/jobs", json={**JOB, "ticket_id": "T-1", "unknown": [1]})
    assert response.status_code == 202
    receipt = response.json()
    assert set(receipt) == {"job_id", "status", "estimated_start_ms", "warnings"}
    assert receipt["status"] == "queued"
    response = await service.get(f"/v1/jobs/{receipt['job_id']}")
    assert (response.status_code, set(response.json())) == (200, JOB_FIELDS)
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-type"] == "application/json"
    unset = {name: response.json()[name] for name in ("pr_url", "pr_number", "started_at", "error")}
    assert set(unset.values()) == {None}
    assert (response.json()["ticket_id"], response.json()["repo"]) == ("T-1", "acme/shop")


async def test_a_job_shows_its_labels_and_the_overrides_that_the_service_knows(
    service: Service,
) -> None:
    override = {"title": "Fix prices", "draft": True, "token": "secret"}
    labels = {"team": "payments", "ci/run": "é 1", "empty": ""}
    job_id = await service.create_job(config_override=override, labels=labels)
    (listed,) = (await service.get("/v1/jobs")).json()["jobs"]
    for job in ((await service.get(f"/v1/jobs/{job_id}")).json(), listed):
        assert job["labels"] == labels
        assert job["config_override"] == {"title": "Fix prices", "draft": True}
        assert job["branch"] == f"agentjobs/fixer/{job_id[-12:]}"
        assert (job["base_commit"], job["head_commit"], job["elapsed_ms"]) == (None, None, None)


@pytest.mark.parametrize("override", [None, {}, {"token": "secret"}])
async def test_a_job_without_known_overrides_and_labels_says_so(
    service: Service, override: dict[str, str] | None
) -> None:
    job_id = await service.create_job(config_override=override, labels={})
    job = (await service.get(f"/v1/jobs/{job_id}")).json()
    assert (job["config_override"], job["labels"]) == (None, {})


async def test_every_invalid_label_is_named(service: Service) -> None:
    labels = {"ok": "x", "-a": "x", "b\n": "x", "c": 1, "d": "x" * 256, "e": "two\nlines"}
    response = await service.post("/v1/jobs", json={**JOB, "labels": labels})
    assert refusal(response) == (422, "validation_failed")
    fields = [fault["field"] for fault in response.json()["error"]["details"]]
    assert fields == ["labels.-a", "labels.b\n", "labels.c", "labels.d", "labels.e"]
    assert (await service.get("/v1/jobs")).json()["jobs"] == []


async def test_the_listing_is_newest_first_and_pages(service: Service) -> None:
    created = [await service.create_job() for _ in range(5)]
    listed: list[str] = []
    query = "?limit=2"
    for _ in range(3):
        page = (await service.get(f"/v1/jobs{query}")).json()
        listed += [job["job_id"] for job in page["jobs"]]
        query = f"?limit=2&cursor={page['next_cursor']}"
    assert listed == created[::-1]
    assert page["next_cursor"] is None


async def test_without_a_limit_twenty_jobs_are_listed(service: Service) -> None:
    for _ in range(21):
        await service.create_job()
    page = (await service.get("/v1/jobs")).json()
    assert len(page["jobs"]) == 20
    assert page["next_cursor"]


async def test_jobs_can_be_filtered(service: Service) -> None:
    queued, cancelled = await service.create_job(), await service.create_job(agent="pro-fixer")
    await service.post(f"/v1/jobs/{cancelled}/cancel")

    async def list_jobs(query: str) -> list[str]:
        page = (await service.get(f"/v1/jobs?{query}")).json()
        return [job["job_id"] for job in page["jobs"]]

    assert await list_jobs("status=queued") == [queued]
    assert await list_jobs("status=cancelled&agent=pro-fixer") == [cancelled]
    assert await list_jobs("agent=fixer") == [queued]
    assert await list_jobs("repo=acme/shop") == [cancelled, queued]
    assert await list_jobs("repo=acme%2Fother") == []
    for query in ("status=queued,cancelled", "status=queued&status=cancelled", "limit=3"):
        assert await list_jobs(query) == [cancelled, queued]


async def test_jobs_can_be_filtered_by_what_their_requests_contain(service: Service) -> None:
    plain = await service.create_job()
    labelled = await service.create_job(ticket_id="T-1", labels={"team": "pay", "ci/run": "é 1"})
    created_at = (await service.get(f"/v1/jobs/{labelled}")).json()["created_at"]

    async def list_jobs(**query: str) -> list[str]:
        page = (await service.get("/v1/jobs", params=query)).json()
        assert "warnings" not in page
        return [job["job_id"] for job in page["jobs"]]

    assert await list_jobs(ticket_id="T-1") == [labelled]
    assert await list_jobs(**{"label.team": "pay", "label.ci/run": "é 1"}) == [labelled]
    assert await list_jobs(**{"label.team": "ops"}) == []
    assert await list_jobs(follows=plain) == []
    assert labelled in await list_jobs(created_after=created_at)
    assert labelled not in await list_jobs(created_before=created_at)
    assert await list_jobs(created_after="2020-01-31", created_before="9999-12-31") == [
        labelled,
        plain,
    ]
    assert await list_jobs(created_before="1960-01-31") == []


INVALID_QUERIES = [
    ("limit=0", ["limit"]),
    ("limit=101", ["limit"]),
    ("limit=ten", ["limit"]),
    ("limit=", ["limit"]),
    ("limit=1.0", ["limit"]),
    ("limit=%D9%A1", ["limit"]),
    ("limit=1&limit=2", ["limit"]),
    ("status=done", ["status"]),
    ("status=queued,done", ["status"]),
    ("status=", ["status"]),
    ("ticket_id=", ["ticket_id"]),
    ("follows=a%00", ["follows"]),
    ("label.=x", ["label."]),
    ("label.a%20b=x", ["label.a b"]),
    ("label.a=x%0a", ["label.a"]),
    ("label.a=x&label.a=y", ["label.a"]),
    ("&".join(f"label.k{number}=" for number in range(9)), ["label"]),
    ("created_after=yesterday", ["created_after"]),
    ("created_before=2026-02-30", ["created_before"]),
    ("created_before=2026-02-03T25:00:00Z", ["created_before"]),
    ("cursor=", ["cursor"]),
    ("cursor=nonsense", ["cursor"]),
    ("cursor=am9icyBub25zZW5zZQ", ["cursor"]),
    ("repo=%00", ["repo"]),
    ("repo=%FF", ["query"]),
    ("limit=0&status=x&cursor=x&agent=", ["status", "agent", "limit", "cursor"]),
    ("&".join(f"x{n}=1" for n in range(101)), ["query"]),
]


async def test_an_invalid_query_names_every_field(
    service: Service, subtests: pytest.Subtests
) -> None:
    for query, fields in INVALID_QUERIES:
        with subtests.test(query):
            response = await service.get(f"/v1/jobs?{query}")
            assert refusal(response) == (422, "validation_failed")
            assert [fault["field"] for fault in response.json()["error"]["details"]] == fields


async def test_a_cursor_of_another_listing_is_refused(service: Service) -> None:
    cursor = (await service.get("/v1/agents?limit=1")).json()["next_cursor"]
    assert cursor
    response = await service.get(f"/v1/jobs?cursor={cursor}")
    assert refusal(response) == (422, "validation_failed")


async def test_unknown_query_parameters_are_ignored(service: Service) -> None:
    assert (await service.get("/v1/jobs?colour=green")).status_code == 200


async def test_nothing_of_another_organization_is_listed(service: Service) -> None:
    rival = await service.harness.organization("rival")
    await service.harness.job(rival)
    assert (await service.get("/v1/jobs")).json() == {"jobs": [], "next_cursor": None}
    names = {repo["full_name"] for repo in (await service.get("/v1/repos")).json()["repos"]}
    assert names == {"acme/shop"}


async def test_the_events_of_a_job_contain_their_payload(service: Service) -> None:
    job = await service.create_job()
    await service.post(f"/v1/jobs/{job}/cancel")
    events = (await service.get(f"/v1/jobs/{job}/events")).json()["events"]
    assert [(event["sequence"], event["event"]) for event in events] == [
        (1, "job.queued"),
        (2, "job.failed"),
    ]
    assert set(events[0]["payload"]) == {"event", "job_id", "repo", "pr_url", "timestamp"}
    assert events[0]["payload"]["timestamp"] == events[0]["timestamp"]


async def test_the_same_key_and_body_is_the_same_job(service: Service) -> None:
    headers = {"Idempotency-Key": "order 66"}
    first = await service.post("/v1/jobs", json={**JOB, "ticket_id": "T"}, headers=headers)
    # The order of the fields does not matter.
    repeated = await service.post("/v1/jobs", json={"ticket_id": "T", **JOB}, headers=headers)
    assert (first.status_code, repeated.status_code) == (202, 202)
    assert repeated.json() == first.json()
    assert "idempotent-replay" not in first.headers
    assert repeated.headers["idempotent-replay"] == "true"
    assert len((await service.get("/v1/jobs")).json()["jobs"]) == 1


async def test_the_same_key_with_another_body_is_refused(service: Service) -> None:
    headers = {"Idempotency-Key": "k"}
    await service.post("/v1/jobs", json=JOB, headers=headers)
    response = await service.post("/v1/jobs", json={**JOB, "ticket_id": "T"}, headers=headers)
    assert refusal(response) == (422, "idempotency_key_reused")


async def test_a_key_belongs_to_its_organization(service: Service) -> None:
    await service.harness.organization("rival")
    other_headers = {**await service.key("rival"), "Idempotency-Key": "k"}
    body = {"repo": "rival/shop", "agent": "fixer"}
    first = await service.post("/v1/jobs", json=body, headers=other_headers)
    own = await service.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "k"})
    assert first.status_code == own.status_code == 202
    assert own.json()["job_id"] != first.json()["job_id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "é"])
async def test_a_key_that_is_not_printable_ascii_is_refused(service: Service, key: str) -> None:
    response = await service.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": key.encode()})
    assert refusal(response) == (422, "validation_failed")


async def test_a_refused_request_leaves_its_key_free(service: Service) -> None:
    headers = {"Idempotency-Key": "k"}
    refused = await service.post("/v1/jobs", json={**JOB, "agent": "nobody"}, headers=headers)
    assert refused.status_code == 422
    assert (await service.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202
