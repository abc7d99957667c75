"""`GET /repos/{repo_id}/dependencies`: pages, filters, advisories and access."""

import dataclasses

import pytest

from agentjobs.repos.queries import list_repos
from service.tests.unit.web.service import Service, refusal
from tests.support.dependencies import COMMIT, fault, package, store_findings, store_index
from tests.support.jobs import insert_repo

URLLIB3 = package("PyPI", "urllib3", "1.26.15", "requests")
DEPENDENCIES = [
    dataclasses.replace(package("PyPI", "requests", "2.30.0"), imported="yes"),
    URLLIB3,
    package("npm", "left-pad", None, fixture=True),
]
UNKNOWN_REPO = "repo_" + "0" * 26


async def repo_of(service: Service, organization: str = "acme") -> str:
    caller = service.harness.callers[organization]
    return (await list_repos(service.harness.db, caller.organization_id))[0].id


@pytest.fixture
async def path(service: Service) -> str:
    repo_id = await repo_of(service)
    await store_index(service.harness.db, repo_id, DEPENDENCIES)
    await store_findings(
        service.harness.db,
        service.caller.organization_id,
        repo_id,
        fault(URLLIB3, "GHSA-1", "medium", 5.9),
    )
    return f"/v1/repos/{repo_id}/dependencies"


async def test_a_dependency_is_listed_with_its_advisories(service: Service, path: str) -> None:
    response = await service.get(path, headers=await service.key(scope="read"))
    assert response.status_code == 200
    page = response.json()
    assert (page["next_cursor"], page["indexed_commit"]) == (None, COMMIT)
    assert [dependency["name"] for dependency in page["dependencies"]] == [
        "requests",
        "urllib3",
        "left-pad",
    ]
    assert page["dependencies"][1] == {
        "purl": "pkg:pypi/urllib3@1.26.15",
        "ecosystem": "PyPI",
        "name": "urllib3",
        "version": "1.26.15",
        "requirement": "",
        "direct": False,
        "scope": "runtime",
        "manifest": "PyPI.lock",
        "parents": ["requests"],
        "fixture": False,
        "imported": "unknown",
        "managed_by": "",
        "advisories": [
            {
                "id": "GHSA-1",
                "aliases": ["CVE-of-GHSA-1"],
                "severity": "medium",
                "score": 5.9,
                "summary": "A leak",
                "fix_version": "9",
                "fix_reason": "no fix is known",
            }
        ],
    }
    assert page["dependencies"][2]["version"] is None
    assert page["dependencies"][2]["advisories"] == []


async def test_dependencies_are_filtered(service: Service, path: str) -> None:
    for query, names in {
        "ecosystem=npm": ["left-pad"],
        "direct=true": ["requests", "left-pad"],
        "direct=false": ["urllib3"],
        "vulnerable=true": ["urllib3"],
        "vulnerable=false": ["requests", "urllib3", "left-pad"],
        "fixture=false": ["requests", "urllib3"],
        "fixture=true": ["left-pad"],
        "imported=yes": ["requests"],
        "imported=no": [],
        "imported=unknown": ["urllib3", "left-pad"],
        "search=LIB": ["urllib3"],
        "search=%25": [],
        "direct=true&ecosystem=PyPI&search=e": ["requests"],
    }.items():
        dependencies = (await service.get(f"{path}?{query}")).json()["dependencies"]
        assert [dependency["name"] for dependency in dependencies] == names, query


async def test_pages_follow_each_other(service: Service, path: str) -> None:
    complete = (await service.get(path)).json()["dependencies"]
    listed, query = [], "?limit=2"
    while query:
        page = (await service.get(path + query)).json()
        listed += page["dependencies"]
        query = page["next_cursor"] and f"?limit=2&cursor={page['next_cursor']}"
    assert listed == complete


async def test_an_invalid_query_is_refused(service: Service, path: str) -> None:
    jobs_cursor, no_position = "am9icyB4", "ZGVwZW5kZW5jaWVzIC0x"
    for query in (
        "limit=0",
        "limit=1001",
        "ecosystem=CPAN",
        "direct=yes",
        "imported=maybe",
        "fixture=1",
        "vulnerable=1",
        "search=",
        f"search={'x' * 256}",
        "search=%00",
        f"cursor={jobs_cursor}",
        f"cursor={no_position}",
    ):
        response = await service.get(f"{path}?{query}")
        assert refusal(response) == (422, "validation_failed"), query


async def test_a_repository_of_another_organization_is_not_found(
    service: Service, path: str
) -> None:
    await service.harness.organization("rival")
    other_repo = await repo_of(service, "rival")
    messages = []
    for repo_id in (other_repo, UNKNOWN_REPO, "repo_none", "acme"):
        response = await service.get(f"/v1/repos/{repo_id}/dependencies")
        assert refusal(response) == (404, "repo_not_found")
        messages.append(response.json()["error"]["message"])
    assert messages[0].replace(other_repo, UNKNOWN_REPO) == messages[1]
    headers = await service.key("rival")
    assert refusal(await service.get(path, headers=headers)) == (404, "repo_not_found")


async def test_a_repository_that_is_still_indexing_is_refused(
    service: Service,
) -> None:
    owner = service.caller.organization_id
    await service.harness.db.transact(insert_repo, owner, "acme/new", "indexing")
    repos = await list_repos(service.harness.db, owner)
    new = next(repo for repo in repos if repo.full_name == "acme/new")
    response = await service.get(f"/v1/repos/{new.id}/dependencies")
    assert refusal(response) == (409, "repo_indexing")
    assert int(response.headers["retry-after"]) > 0
