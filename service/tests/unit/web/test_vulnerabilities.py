"""`/vulnerabilities`: listing, dismissing, snoozing and reopening over the API."""

import pytest

from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.repos.queries import list_repos
from service.tests.unit.web.service import Service, refusal
from tests.support.dependencies import fault, package, store_findings

REQUESTS = package("PyPI", "requests", "2.30.0")
UNKNOWN = "fnd_" + "0" * 26


@pytest.fixture
async def ids(service: Service) -> list[str]:
    """Of a critical and a low vulnerability."""
    owner = service.caller.organization_id
    repo_id = (await list_repos(service.harness.db, owner))[0].id
    findings = [fault(REQUESTS, "GHSA-1", "critical", 9.8), fault(REQUESTS, "GHSA-2", "low", 2.0)]
    await store_findings(service.harness.db, owner, repo_id, *findings)
    page = (await service.get("/v1/vulnerabilities")).json()
    return [each["id"] for each in page["vulnerabilities"]]


async def listed(service: Service, query: str) -> list[str]:
    page = (await service.get(f"/v1/vulnerabilities?{query}")).json()
    return [each["advisory_id"] for each in page["vulnerabilities"]]


async def test_vulnerabilities_are_listed_and_filtered(service: Service, ids: list[str]) -> None:
    response = await service.get("/v1/vulnerabilities", headers=await service.key(scope="read"))
    assert response.status_code == 200
    assert response.json()["vulnerabilities"][0] | {"first_seen_at": ""} == {
        "id": ids[0],
        "repo": "acme/shop",
        "manifest": "PyPI.lock",
        "ecosystem": "PyPI",
        "package": "requests",
        "version": "2.30.0",
        "advisory_id": "GHSA-1",
        "aliases": ["CVE-of-GHSA-1"],
        "severity": "critical",
        "score": 9.8,
        "summary": "A leak",
        "fix_version": "9",
        "fix_reason": "no fix is known",
        "fixture": False,
        "first_seen_at": "",
        "state": "open",
        "reason": None,
        "note": "",
        "until": None,
        "decided_by": None,
        "decided_at": None,
    }
    for query, expected in {
        "": ["GHSA-1", "GHSA-2"],
        "severity=low": ["GHSA-2"],
        "repo=acme/shop": ["GHSA-1", "GHSA-2"],
        "search=ghsa-1": ["GHSA-1"],
        "fixture=true": [],
        "dismissed=true": [],
        "dismissed=false": ["GHSA-1", "GHSA-2"],
        "limit=1": ["GHSA-1"],
    }.items():
        assert await listed(service, query) == expected, query
    cursor = (await service.get("/v1/vulnerabilities?limit=1")).json()["next_cursor"]
    assert await listed(service, f"cursor={cursor}") == ["GHSA-2"]
    for query in ("severity=grave", "dismissed=1", "cursor=x", "limit=101"):
        response = await service.get(f"/v1/vulnerabilities?{query}")
        assert refusal(response) == (422, "validation_failed"), query
    response = await service.get("/v1/vulnerabilities?repo=acme/none")
    assert refusal(response) == (404, "repo_not_found")


async def test_a_vulnerability_is_dismissed_snoozed_and_reopened(
    service: Service, ids: list[str]
) -> None:
    path = f"/v1/vulnerabilities/{ids[0]}"
    body = {"reason": "not_reachable", "note": "Only in a script."}
    dismissed = (await service.post(f"{path}/dismiss", json=body)).json()
    assert (dismissed["state"], dismissed["reason"], dismissed["note"]) == (
        *("dismissed", "not_reachable"),
        "Only in a script.",
    )
    assert dismissed["until"] is None
    assert await listed(service, "dismissed=false") == ["GHSA-2"]
    body = {"reason": "fix_later", "until": "2999-01-31"}
    snoozed = (await service.post(f"{path}/dismiss", json=body)).json()
    assert (snoozed["state"], snoozed["until"]) == ("snoozed", "2999-01-31T00:00:00.000Z")
    assert await listed(service, "dismissed=true") == ["GHSA-1"]
    for _ in range(2):
        response = await service.post(f"{path}/reopen")
        assert (response.status_code, response.json()["state"]) == (200, "open")
    entries = await list_entries(
        service.harness.db,
        service.caller.organization_id,
        AuditFilter(action="vulnerability"),
        limit=9,
    )
    assert [(each.actor_kind, each.action.partition(".")[2]) for each in entries] == [
        ("key", "reopened"),
        ("key", "snoozed"),
        ("key", "dismissed"),
    ]


async def test_an_invalid_dismissal_is_refused(service: Service, ids: list[str]) -> None:
    path = f"/v1/vulnerabilities/{ids[0]}/dismiss"
    for body in (
        {},
        {"reason": "lazy"},
        {"reason": "fix_later", "until": "2020-01-01"},
        {"reason": "fix_later", "until": "2026-02-30"},
        {"reason": "fix_later", "note": "x" * 1_001},
        # PostgreSQL stores no NUL.
        {"reason": "fix_later", "note": "a\0b"},
    ):
        response = await service.post(path, json=body)
        assert refusal(response) == (422, "validation_failed"), body
    response = await service.post(
        path, json={"reason": "fix_later"}, headers=await service.key(scope="read")
    )
    assert refusal(response) == (403, "insufficient_scope")


async def test_a_vulnerability_of_another_organization_is_not_found(
    service: Service, ids: list[str]
) -> None:
    await service.harness.organization("rival")
    rival = await service.key(organization="rival")
    for identifier in (ids[0], UNKNOWN, "nonsense"):
        for verb in ("dismiss", "reopen"):
            response = await service.post(
                f"/v1/vulnerabilities/{identifier}/{verb}",
                json={"reason": "fix_later"},
                headers=rival,
            )
            assert refusal(response) == (404, "vulnerability_not_found"), identifier
