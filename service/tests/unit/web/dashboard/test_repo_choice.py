"""Filters and forms with a repository, in organizations with few and with many of them."""

import pytest

from tests.support.jobs import insert_repo

FILTERS = ("/jobs", "/pulls", "/vulnerabilities")
REPOS = 400


async def connect_many(dashboard, index_status="ready") -> None:
    async def insert(tx) -> None:
        for n in range(REPOS):
            name = f"acme/service-{n:03}"
            await insert_repo(tx, dashboard.caller.organization_id, name, index_status)

    await dashboard.db.transact(insert)


def suggestions(page) -> list[str]:
    options = [attributes for tag, attributes in page.tags if tag == "option"]
    return [each["value"] for each in options if (each["value"] or "").startswith("acme/")]


def attributes_of(page, name: str) -> dict[str, str | None]:
    return next(
        attributes
        for tag, attributes in page.tags
        if tag in {"input", "select"} and attributes.get("name") == name
    )


@pytest.mark.parametrize("path", [*FILTERS, "/jobs/new"])
async def test_pages_list_few_repositories_and_suggest_some_of_many(sample_dashboard, path):
    dashboard = sample_dashboard
    page = await dashboard.member.open(path)
    few = len(page.html)
    assert "list" not in attributes_of(page, "repo")
    await connect_many(dashboard)
    page = await dashboard.member.open(path)
    assert len(page.html) - few < 6_000
    assert attributes_of(page, "repo")["list"] == "repo-names"
    assert len(suggestions(page)) == 100
    # The repository of the newest jobs comes first.
    assert suggestions(page)[0] == "acme/shop"
    assert page.is_safe()


@pytest.mark.parametrize("path", FILTERS)
async def test_a_filter_by_an_unknown_repository_says_so(sample_dashboard, path):
    dashboard = sample_dashboard
    page = await dashboard.member.open(f"{path}?repo=acme/gone")
    assert "No repository acme/gone is connected." in page.text
    assert page.form(path).value("repo") == "acme/gone"
    assert "is connected" not in (await dashboard.member.open(f"{path}?repo=acme/shop")).text
    await connect_many(dashboard)
    page = await dashboard.member.open(f"{path}?repo=Service-12")
    assert attributes_of(page, "repo")["aria-invalid"] == "true"
    assert page.form(path).value("repo") == "Service-12"
    assert suggestions(page) == [f"acme/service-12{n}" for n in range(10)]
    assert "No repository Service-12 is connected. Similar: acme/service-120 ," in page.text
    page = await dashboard.member.open(f"{path}?repo=acme/service-399")
    assert "is connected" not in page.text


async def test_a_job_is_created_by_the_name_of_one_of_many_repositories(dashboard):
    await connect_many(dashboard)
    page = await dashboard.member.open("/jobs/new")
    assert page.form("/jobs").value("repo") == ""
    refused = await dashboard.member.send(page, "/jobs", repo="acme/service-3", agent="fixer")
    assert "This repository is not connected to your organization" in refused.text
    assert suggestions(refused)[0] == "acme/service-300"
    created = await dashboard.member.send(refused, "/jobs", repo="acme/service-300", agent="fixer")
    assert created.path.startswith("/jobs/job_")


async def test_repositories_that_are_still_indexing_are_not_suggested_for_a_job(dashboard):
    await connect_many(dashboard, "indexing")
    assert suggestions(await dashboard.member.open("/jobs/new")) == ["acme/shop"]
    assert len(suggestions(await dashboard.member.open("/jobs"))) == 100
