"""The rows of imports, on both stores."""

import pytest

from agentjobs.organizations.organizations import Organization, create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.repos.imports import rows
from agentjobs.repos.imports.rows import ImportView, dismiss, list_imports
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS


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
    return await db.transact(rows.fail, view.id, message)


async def test_imports_are_listed_with_their_progress(
    database: Database, acme: Organization
) -> None:
    first, second = await begin(database, acme, 1), await begin(database, acme, 2)
    assert await list_imports(database, acme.id) == [second, first]
    assert await list_imports(database, "org_other") == []
    assert await database.transact(rows.renew, first.id, "half")
    updated = (await list_imports(database, acme.id))[1]
    assert (updated.state, updated.message, updated.updated_at > first.updated_at) == (
        "running",
        "half",
        True,
    )


async def test_a_change_wakes_listeners(database: Database, acme: Organization) -> None:
    with database.changes.listen("index") as signal:
        view = await begin(database, acme, 1)
        assert await signal.wait(30)
        await fail(database, view)
        assert await signal.wait(30)
        await dismiss(database, acme.id, view.id)
        assert await signal.wait(30)


async def test_only_failed_imports_are_dismissed_and_only_by_their_organization(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1)
    with pytest.raises(Problem, match="reload the list"):
        await dismiss(database, acme.id, view.id)
    assert await fail(database, view)
    with pytest.raises(Problem):
        await dismiss(database, "org_other", view.id)
    await dismiss(database, acme.id, view.id)
    assert await list_imports(database, acme.id) == []


async def test_a_failed_import_cannot_fail_again_or_complete(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1)
    assert await fail(database, view, "the first reason")
    assert not await fail(database, view, "another")
    assert not await database.transact(rows.complete, acme.id, view.id)
    assert [view.message for view in await list_imports(database, acme.id)] == ["the first reason"]


async def test_a_name_is_imported_once_at_a_time_and_a_new_import_replaces_a_failed_one(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1, "acme/shop")
    with pytest.raises(Problem, match="already being imported"):
        await begin(database, acme, 2, "acme/shop")
    await fail(database, view)
    retried = await begin(database, acme, 3, "acme/shop")
    assert await list_imports(database, acme.id) == [retried]


async def test_an_organization_has_a_limited_number_of_imports(
    database: Database, acme: Organization
) -> None:
    for number in range(rows.MAX_RUNNING):
        await begin(database, acme, number)
    with pytest.raises(Problem) as caught:
        await begin(database, acme, 100)
    assert caught.value.code == "too_many_imports"


async def test_only_the_newest_failures_are_kept(database: Database, acme: Organization) -> None:
    for number in range(rows.MAX_FAILED + 3):
        await fail(database, await begin(database, acme, number))
    created = [view.created_at for view in await list_imports(database, acme.id)]
    assert created == list(range(rows.MAX_FAILED + 2, 2, -1))


async def test_imports_left_running_by_a_killed_service_are_marked_as_failed(
    database: Database, acme: Organization
) -> None:
    left, failed = await begin(database, acme, 1), await begin(database, acme, 2)
    await fail(database, failed, "its own reason")
    # Another process runs them.
    assert await database.transact(rows.fail_abandoned) == []
    await database.transact(_end_leases)
    running = await begin(database, acme, 3)
    assert sorted(await database.transact(rows.fail_abandoned)) == [left.id, failed.id]
    await database.transact(rows.clear_lease, left.id)
    await database.transact(rows.clear_lease, failed.id)
    assert await database.transact(rows.fail_abandoned) == []
    messages = {view.id: view.message for view in await list_imports(database, acme.id)}
    assert messages == {
        left.id: rows.STOPPED,
        failed.id: "its own reason",
        running.id: running.message,
    }


async def test_no_import_fails_while_its_process_may_have_been_cut_off(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1)
    await database.transact(_end_leases)
    assert await database.transact(rows.fail_abandoned, lambda: False) == []
    assert await rows.find_state(database, view.id) == "running"


async def test_a_renewed_import_outlasts_its_first_lease_unless_it_was_cancelled(
    database: Database, acme: Organization
) -> None:
    view = await begin(database, acme, 1)
    await database.transact(_end_leases)
    assert await database.transact(rows.renew, view.id, "half")
    assert await database.transact(rows.fail_abandoned) == []
    await database.transact(rows.cancel, acme.id, view.id)
    assert not await database.transact(rows.renew, view.id, "half")


async def _end_leases(tx: Transaction) -> None:
    await tx.execute("UPDATE repo_imports SET lease_until = 1")
