"""The rows of repositories on their way in, on both stores."""

import pytest

from agentjobs.organizations.organizations import Organization, create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.problems import Problem
from agentjobs.repos.imports import rows
from agentjobs.repos.imports.rows import ImportView, dismiss, list_imports
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database


@pytest.fixture
async def acme(database: Database) -> Organization:
    return await create_organization(database, Plans(DEFAULT_PLANS), "acme", "enterprise")


def an_import(number: int, name: str = "") -> ImportView:
    return ImportView(
        id=f"imp_{number:04}",
        full_name=name or f"acme/shop-{number}",
        source="https://git.example/acme/shop.git",
        state="running",
        message="Waiting",
        started_by="Ada",
        created_at=number,
        updated_at=number,
    )


async def begin(db: Database, owner: Organization, number: int, name: str = "") -> ImportView:
    view = an_import(number, name)
    await db.transact(rows.insert, owner.id, view)
    return view


async def fail(db: Database, view: ImportView, message: str = "no") -> bool:
    return await db.transact(rows.note, view.id, message, "failed")


async def test_an_import_is_listed_with_how_far_it_is(
    database: Database, acme: Organization
) -> None:
    first, second = await begin(database, acme, 1), await begin(database, acme, 2)
    assert await list_imports(database, acme.id) == [second, first]
    assert await list_imports(database, "org_other") == []
    assert await database.transact(rows.note, first.id, "half", "running")
    told = (await list_imports(database, acme.id))[1]
    assert (told.state, told.message, told.updated_at > first.updated_at) == (
        "running",
        "half",
        True,
    )


async def test_a_change_wakes_those_who_look(database: Database, acme: Organization) -> None:
    with database.changes.listen("index") as signal:
        view = await begin(database, acme, 1)
        assert await signal.wait(5)
        await fail(database, view)
        assert await signal.wait(5)
        await dismiss(database, acme.id, view.id)
        assert await signal.wait(5)


async def test_only_what_failed_is_dismissed_and_only_by_its_owner(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1)
    with pytest.raises(Problem, match="look at the list again"):
        await dismiss(database, acme.id, view.id)
    assert await fail(database, view)
    with pytest.raises(Problem):
        await dismiss(database, "org_other", view.id)
    await dismiss(database, acme.id, view.id)
    assert await list_imports(database, acme.id) == []


async def test_what_has_failed_neither_runs_nor_ends_again(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1)
    assert await fail(database, view, "the first reason")
    assert not await fail(database, view, "another")
    assert not await database.transact(rows.end, acme.id, view.id)
    assert [one.message for one in await list_imports(database, acme.id)] == ["the first reason"]


async def test_a_name_is_imported_once_at_a_time_and_forgets_its_failure(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1, "acme/shop")
    with pytest.raises(Problem, match="being connected already"):
        await begin(database, acme, 2, "acme/shop")
    await fail(database, view)
    again = await begin(database, acme, 3, "acme/shop")
    assert await list_imports(database, acme.id) == [again]


async def test_an_organization_has_a_bounded_number_of_imports(
    database: Database, acme: Organization
) -> None:
    for number in range(rows.MAX_RUNNING):
        await begin(database, acme, number)
    with pytest.raises(Problem) as refused:
        await begin(database, acme, 100)
    assert refused.value.code == "too_many_imports"


async def test_of_many_failures_the_newest_are_kept(database: Database, acme: Organization) -> None:
    for number in range(rows.MAX_FAILED + 3):
        await fail(database, await begin(database, acme, number))
    kept = [view.created_at for view in await list_imports(database, acme.id)]
    assert kept == list(range(rows.MAX_FAILED + 2, 2, -1))


async def test_what_a_killed_service_left_running_is_told_as_failed(
    database: Database, acme: Organization
) -> None:
    left, failed = await begin(database, acme, 1), await begin(database, acme, 2)
    await fail(database, failed, "its own reason")
    assert await database.transact(rows.fail_all_running) == [left.id]
    told = {view.id: view.message for view in await list_imports(database, acme.id)}
    assert told == {left.id: rows.STOPPED, failed.id: "its own reason"}
