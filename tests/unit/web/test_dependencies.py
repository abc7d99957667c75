"""`GET /repos/{repo_id}/dependencies`: pages, filters, advisories, and whom it answers nothing."""

import pytest

from agentjobs.repos.queries import list_repos
from tests.support.dependencies import COMMIT, fault, package, store_findings, store_index
from tests.support.jobs import insert_repo
from tests.unit.web.service import Service, refusal

URLLIB3 = package("PyPI", "urllib3", "1.26.15", "requests")
DEPENDENCIES = [package("PyPI", "requests", "2.30.0"), URLLIB3, package("npm", "left-pad", None)]
NOBODYS = "repo_" + "0" * 26


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


async def test_a_dependency_is_told_with_its_advisories(service: Service, path: str) -> None:
    answer = await service.get(path, headers=await service.key(scope="read"))
    assert answer.status_code == 200
    told = answer.json()
    assert (told["next_cursor"], told["indexed_commit"]) == (None, COMMIT)
    assert [one["name"] for one in told["dependencies"]] == ["requests", "urllib3", "left-pad"]
    assert told["dependencies"][1] == {
        "purl": "pkg:pypi/urllib3@1.26.15",
        "ecosystem": "PyPI",
        "name": "urllib3",
        "version": "1.26.15",
        "requirement": "",
        "direct": False,
        "scope": "runtime",
        "manifest": "PyPI.lock",
        "parents": ["requests"],
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
    assert told["dependencies"][2]["version"] is None
    assert told["dependencies"][2]["advisories"] == []


async def test_dependencies_are_filtered(service: Service, path: str) -> None:
    for query, names in {
        "ecosystem=npm": ["left-pad"],
        "direct=true": ["requests", "left-pad"],
        "direct=false": ["urllib3"],
        "vulnerable=true": ["urllib3"],
        "vulnerable=false": ["requests", "urllib3", "left-pad"],
        "search=LIB": ["urllib3"],
        "search=%25": [],
        "direct=true&ecosystem=PyPI&search=e": ["requests"],
    }.items():
        found = (await service.get(f"{path}?{query}")).json()["dependencies"]
        assert [one["name"] for one in found] == names, query


async def test_pages_follow_each_other(service: Service, path: str) -> None:
    every = (await service.get(path)).json()["dependencies"]
    seen, query = [], "?limit=2"
    while query:
        page = (await service.get(path + query)).json()
        seen += page["dependencies"]
        query = page["next_cursor"] and f"?limit=2&cursor={page['next_cursor']}"
    assert seen == every


async def test_a_bad_question_is_refused(service: Service, path: str) -> None:
    jobs_cursor, no_position = "am9icyB4", "ZGVwZW5kZW5jaWVzIC0x"
    for query in (
        "limit=0",
        "limit=1001",
        "ecosystem=CPAN",
        "direct=yes",
        "vulnerable=1",
        "search=",
        f"search={'x' * 256}",
        "search=%00",
        f"cursor={jobs_cursor}",
        f"cursor={no_position}",
    ):
        answer = await service.get(f"{path}?{query}")
        assert refusal(answer) == (422, "validation_failed"), query


async def test_a_repository_of_another_organization_looks_like_none(
    service: Service, path: str
) -> None:
    await service.harness.organization("rival")
    theirs = await repo_of(service, "rival")
    messages = []
    for wanted in (theirs, NOBODYS, "repo_none", "acme"):
        answer = await service.get(f"/v1/repos/{wanted}/dependencies")
        assert refusal(answer) == (404, "repo_not_found")
        messages.append(answer.json()["error"]["message"])
    assert messages[0].replace(theirs, NOBODYS) == messages[1]
    rivals = await service.key("rival")
    assert refusal(await service.get(path, headers=rivals)) == (404, "repo_not_found")


async def test_a_repository_that_is_still_indexing_has_nothing_to_tell_yet(
    service: Service,
) -> None:
    owner = service.caller.organization_id
    await service.harness.db.transact(insert_repo, owner, "acme/new", "indexing")
    repos = await list_repos(service.harness.db, owner)
    new = next(repo for repo in repos if repo.full_name == "acme/new")
    answer = await service.get(f"/v1/repos/{new.id}/dependencies")
    assert refusal(answer) == (409, "repo_indexing")
    assert int(answer.headers["retry-after"]) > 0
