"""Unknown fields and query parameters are ignored, and the response says so."""

import json
from typing import Any

import pytest

from agentjobs.store.database import Transaction
from service.tests.unit.web.service import JOB, Service


async def warnings_of(service: Service, body: dict[str, Any], query: str = "") -> list[str]:
    response = await service.post(f"/v1/jobs{query}", json={**JOB, **body})
    assert response.status_code == 202, response.text
    warnings: list[str] = response.json()["warnings"]
    return warnings


async def test_a_request_without_unknown_parts_has_no_warnings(service: Service) -> None:
    body = {"ticket_id": None, "labels": {"team": "x"}, "config_override": {"model": "large"}}
    assert await warnings_of(service, body) == []
    assert await warnings_of(service, {}) == []


@pytest.mark.parametrize(
    ("field", "end"),
    [
        ("prompt", "did you mean `config_override.prompt`?"),
        ("max_cost", "did you mean `config_override.max_cost_usd`?"),
        ("ticketId", "did you mean `ticket_id`?"),
        ("label", "did you mean `labels`?"),
        ("repository", "did you mean `repo`?"),
        ("timeout", "did you mean `config_override.timeout_seconds`?"),
        ("colour", "there is no such field."),
    ],
)
async def test_an_unknown_field_is_named_with_what_was_probably_meant(
    service: Service, field: str, end: str
) -> None:
    assert await warnings_of(service, {field: "x"}) == [f"`{field}` was ignored: {end}"]


async def test_a_misspelled_override_is_named_and_the_agents_own_are_not(service: Service) -> None:
    override = {"promt": "Fix it", "temperature": 1}
    (warning,) = await warnings_of(service, {"config_override": override})
    assert warning.startswith("`config_override.promt` was only passed to the agent:")
    assert warning.endswith(": did you mean `config_override.prompt`?")


@pytest.mark.parametrize(
    ("path", "warning"),
    [
        ("/v1/jobs?state=queued", "`state` was ignored: did you mean `status`?"),
        ("/v1/jobs?label=team", "`label` was ignored: did you mean `label.KEY`?"),
        ("/v1/agents?x=1", "`x` was ignored: there is no such query parameter."),
        ("/v1/repos?page=2&limit=1", "`page` was ignored: there is no such query parameter."),
        ("/v1/jobs/{}/events?x", "`x` was ignored: there is no such query parameter."),
        ("/v1/jobs/{}/events?%1b%ff=1", "`\\x1b�` was ignored: there is no such query parameter."),
    ],
)
async def test_a_response_names_unknown_query_parameters(
    service: Service, path: str, warning: str
) -> None:
    job_id = await service.create_job()
    response = await service.get(path.format(job_id))
    assert (response.status_code, response.json()["warnings"]) == (200, [warning])


async def test_known_query_parameters_cause_no_warnings(service: Service) -> None:
    job_id = await service.create_job()
    assert "warnings" not in (await service.get("/v1/jobs?status=queued&limit=5")).json()
    assert (await service.get(f"/v1/jobs/{job_id}?wait_seconds=0")).json()["warnings"] == []


async def test_a_job_keeps_its_own_warnings(service: Service) -> None:
    job_id = await service.create_job()
    await service.context.db.transact(_warn, job_id)
    job = (await service.get(f"/v1/jobs/{job_id}?verbose=1")).json()
    ignored = "`verbose` was ignored: there is no such query parameter."
    assert job["warnings"] == ["The ticket was not linked.", ignored]
    assert list(job)[-1] != "warnings"


async def _warn(tx: Transaction, job_id: str) -> None:
    warnings = json.dumps(["The ticket was not linked."])
    await tx.execute(
        "UPDATE jobs SET warnings = :warnings WHERE id = :id", id=job_id, warnings=warnings
    )


async def test_the_fields_and_the_query_of_one_request_are_both_named(service: Service) -> None:
    assert len(await warnings_of(service, {"colour": 1}, "?dry_run=1")) == 2


async def test_a_replay_names_them_again(service: Service) -> None:
    headers = {"Idempotency-Key": "one"}
    bodies = [
        (await service.post("/v1/jobs", json={**JOB, "colour": 1}, headers=headers)).json()
        for _ in range(2)
    ]
    assert bodies[0] == bodies[1]
    assert len(bodies[1]["warnings"]) == 1


async def test_warnings_are_few_and_short(service: Service) -> None:
    body = {f"{number}{'x' * 1_000}": 1 for number in range(30)}
    override = {f"promp{number}": 1 for number in range(1_000)}
    warnings = await warnings_of(service, {**body, "config_override": override})
    assert warnings[10] == "20 more fields were ignored."
    assert len(warnings) == 21
    assert max(map(len, warnings)) < 150


async def test_a_query_with_too_many_parameters_is_not_examined(service: Service) -> None:
    job_id = await service.create_job()
    response = await service.get(f"/v1/jobs/{job_id}/events?{'&'.join(['a=1'] * 101)}")
    message = "The query was ignored: it has more than 100 parameters."
    assert response.json()["warnings"] == [message]


async def test_responses_that_are_not_json_stay_as_they_are(service: Service) -> None:
    job_id = await service.create_job()
    response = await service.get(f"/v1/jobs/{job_id}/logs?colour=1")
    assert (response.status_code, response.text) == (200, "")
