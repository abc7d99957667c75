"""Webhooks that the service registers: created once, found again, repaired and removed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from agentjobs.cli.orgs import deletion
from agentjobs.connections.connections import remove_connection, rotate_hook_secret
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync import hook_choices, hook_removal
from agentjobs.platform_sync.claims import PlatformRepo, claim_due_sync
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.platform_sync.hook_registration import HookRegistration, open_registered_secret
from agentjobs.platform_sync.hook_removal import remove_due_hooks, remove_hooks_of_connection
from agentjobs.platforms.hooks import HookEvent
from agentjobs.platforms.protocol import PlatformError, RemoteHook
from agentjobs.repos import hook_rows
from agentjobs.repos.connect import disconnect_repository
from agentjobs.repos.hook_rows import HookRow
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load
from tests.support.platform_sync import (
    ORGANIZATION,
    SHOP,
    FakeHooks,
    SyncEnvironment,
    sync_environment,
)

PUBLIC_URL = "https://agentjobs.example.org"
AWAY = PlatformError("Gitea is busy.", "away")
DENIED = PlatformError(
    "Gitea denies access; the connection needs the permission “admin”.", "denied"
)


@dataclass
class Hooks:
    env: SyncEnvironment
    repo: PlatformRepo
    keys: SealingKeys

    @property
    def platform(self) -> FakeHooks:
        return self.env.platform.hooks

    @property
    def url(self) -> str:
        return f"{PUBLIC_URL}/hooks/gitea/{self.env.connection.id}/{self.repo.id}"

    async def sync(self) -> HookRow | None:
        """As a part of a sync in a process that has just started."""
        settings = self.env.context.settings
        await HookRegistration(self.env.db, settings, self.keys).sync(self.repo, self.env.platform)
        return await hook_rows.hook_of_repo(self.env.db, self.repo.id)

    async def check_again(self) -> HookRow:
        await self.env.execute("UPDATE repo_hooks SET due_at = 1")
        row = await self.sync()
        assert row is not None
        return row

    async def hours_until_due(self) -> float:
        row = await self.env.db.fetch_one("SELECT due_at, checked_at FROM repo_hooks")
        assert row is not None
        return float(row["due_at"] - row["checked_at"]) / 3_600_000

    async def secret(self) -> str:
        connection_id = self.env.connection.id
        opened = await open_registered_secret(self.env.db, self.keys, connection_id, self.repo.id)
        return "" if opened is None else opened[1]

    def change(self, **changes: Any) -> None:
        """Change the webhook on the platform."""
        (row,) = self.platform.rows
        self.platform.rows[:] = [msgspec.structs.replace(row, **changes)]

    async def disconnect(self) -> None:
        async def nothing(_: Transaction, repo_id: str) -> None:
            assert repo_id == self.repo.id

        await disconnect_repository(self.env.db, ORGANIZATION, "acme/shop", also=nothing)


async def hooks_environment(database: Database, directory: Path, **choices: Any) -> Hooks:
    settings = load({"AGENTJOBS_DATA_DIR": str(directory), "AGENTJOBS_PUBLIC_URL": PUBLIC_URL})
    env = await sync_environment(database, settings, cast("Remote", None))
    await env.connect(**{"public_url": PUBLIC_URL, **choices})
    due = await claim_due_sync(env.db)
    assert due is not None
    return Hooks(env, due.repo, SealingKeys.load(settings))


@pytest.fixture
async def hooks(database: Database, tmp_path: Path) -> Hooks:
    return await hooks_environment(database, tmp_path)


async def test_a_webhook_is_registered_once_with_a_secret_of_its_own(hooks: Hooks) -> None:
    row = await hooks.sync()
    assert row is not None
    assert (row.state, row.note, row.is_failing) == ("registered", None, False)
    assert [hook.target_url for hook in hooks.platform.rows] == [hooks.url]
    assert await hooks.secret() == hooks.platform.secrets["1"]
    assert await hooks.secret() != hooks.env.hook_secret
    # Another look asks nothing, and one some hours later asks once and changes nothing.
    await hooks.sync()
    assert hooks.platform.requests["list"] == 1
    assert 4 < await hooks.hours_until_due() < 8
    assert (await hooks.check_again()).state == "registered"
    assert hooks.platform.requests == {"list": 2, "create": 1}


async def test_a_webhook_whose_response_was_lost_is_found_again(hooks: Hooks) -> None:
    hooks.platform.faults["create"] = AWAY
    row = await hooks.sync()
    assert row is not None
    assert (row.state, row.note) == ("pending", "Gitea is busy.")
    hooks.platform.faults.clear()
    assert (await hooks.check_again()).state == "registered"
    assert hooks.platform.requests["create"] == 1
    assert await hooks.secret() == hooks.platform.secrets["1"]


@pytest.mark.parametrize("fault", ["deleted", "incomplete", "other host", "duplicate"])
async def test_a_webhook_that_was_changed_is_repaired(hooks: Hooks, fault: str) -> None:
    await hooks.sync()
    match fault:
        case "deleted":
            hooks.platform.rows.clear()
        case "incomplete":
            hooks.change(is_complete=False)
        case "other host":
            hooks.change(target_url=hooks.url.replace("example.org", "example.com"))
        case _:
            hooks.platform.rows += [
                RemoteHook(hook_id="8", target_url=hooks.url, is_complete=True),
                RemoteHook(hook_id="9", target_url="https://ci.example.org", is_complete=True),
            ]
    row = await hooks.check_again()
    assert row.state == "registered"
    own = [hook for hook in hooks.platform.rows if hook.target_url == hooks.url]
    assert [hook.is_complete for hook in own] == [True]
    assert await hooks.secret() == hooks.platform.secrets[own[0].hook_id]
    # Webhooks of others stay.
    assert len(hooks.platform.rows) == (2 if fault == "duplicate" else 1)


async def test_a_missing_permission_is_a_note_and_asked_about_daily(hooks: Hooks) -> None:
    hooks.platform.faults["list"] = DENIED
    row = await hooks.sync()
    assert row is not None
    assert (row.state, row.note) == ("refused", str(DENIED))
    assert 19 < await hooks.hours_until_due() < 29
    hooks.platform.faults.clear()
    await hooks.env.db.transact(hook_rows.make_due, hooks.env.connection.id)
    row = await hooks.sync()
    assert row is not None
    assert (row.state, row.note) == ("registered", None)


async def test_a_platform_that_is_away_is_asked_less_and_less_often(hooks: Hooks) -> None:
    hooks.platform.faults["list"] = AWAY
    waits = []
    for _ in range(9):
        await hooks.check_again()
        waits.append(await hooks.hours_until_due())
    assert waits == sorted(waits)
    assert waits[0] < 0.02
    assert waits[-1] == pytest.approx(1)
    hooks.platform.faults["list"] = PlatformError("Bad credentials", "unauthorized")
    with pytest.raises(PlatformError, match="Bad credentials"):
        await hooks.check_again()


async def test_another_webhook_that_delivers_makes_ours_unnecessary(hooks: Hooks) -> None:
    await hooks.sync()
    shared_url = hooks.url.rpartition("/")[0]
    hooks.platform.rows.append(
        RemoteHook(hook_id="7", target_url=shared_url, is_complete=True, delivery="200 OK")
    )
    row = await hooks.check_again()
    assert (row.state, row.delivery) == ("covered", "200 OK")
    assert [hook.hook_id for hook in hooks.platform.rows] == ["7"]
    # The webhook of a GitHub App.
    hooks.platform.rows.clear()
    app_hook = RemoteHook(
        hook_id="app", target_url=shared_url, is_complete=True, is_failing=True, delivery="502"
    )
    hooks.platform.app_hook = app_hook
    row = await hooks.check_again()
    assert (row.state, row.is_failing, row.delivery) == ("covered", True, "502")
    hooks.platform.app_hook = msgspec.structs.replace(app_hook, target_url="https://old.example")
    row = await hooks.check_again()
    assert row.state == "refused"
    assert f"set its URL to {shared_url}" in str(row.note)
    assert hooks.platform.rows == []


async def test_the_platforms_delivery_status_is_stored(hooks: Hooks) -> None:
    await hooks.sync()
    hooks.change(is_failing=True, delivery="502 Bad Gateway")
    row = await hooks.check_again()
    assert (row.state, row.is_failing, row.delivery) == ("registered", True, "502 Bad Gateway")


async def test_rotating_the_secret_replaces_those_of_registered_webhooks(hooks: Hooks) -> None:
    await hooks.sync()
    first = await hooks.secret()
    await rotate_hook_secret(hooks.env.db, hooks.keys, ORGANIZATION, hooks.env.connection.id)
    assert await hooks.secret() == ""
    await hooks.sync()
    assert await hooks.secret() == hooks.platform.secrets["2"] != first
    assert [hook.hook_id for hook in hooks.platform.rows] == ["2"]


async def test_a_disconnected_repository_loses_its_webhook(hooks: Hooks) -> None:
    await hooks.sync()
    hooks.platform.rows.append(
        RemoteHook(hook_id="9", target_url="https://ci.example.org", is_complete=True)
    )
    await hooks.disconnect()
    # Deliveries that are on their way are still verified and then ignored.
    assert await hooks.secret()
    hooks.env.change_repo(SHOP, full_name="acme/renamed")
    hooks.env.platform.faults["repository"] = AWAY
    await remove_due_hooks(hooks.env.db, hooks.env)
    assert len(hooks.platform.rows) == 2
    hooks.env.platform.faults.clear()
    await remove_due_hooks(hooks.env.db, hooks.env)
    assert len(hooks.platform.rows) == 2
    await hooks.env.execute("UPDATE repo_hooks SET removal_due_at = 1")
    await remove_due_hooks(hooks.env.db, hooks.env)
    assert [hook.hook_id for hook in hooks.platform.rows] == ["9"]
    assert await hooks.secret() == ""


async def test_removal_gives_up_after_a_day_and_at_once_without_permission(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hooks.sync()
    await hooks.disconnect()
    monkeypatch.setattr(hook_removal, "MAX_FAILURES", 3)
    hooks.platform.faults["list"] = AWAY
    for left in (True, True, False):
        await hooks.env.execute("UPDATE repo_hooks SET removal_due_at = 1")
        await remove_due_hooks(hooks.env.db, hooks.env)
        assert (await hooks.secret() != "") is left
    await hooks.env.connect(public_url=PUBLIC_URL)
    due = await claim_due_sync(hooks.env.db)
    assert due is not None
    hooks.repo = due.repo
    hooks.platform.faults.clear()
    await hooks.sync()
    await hooks.disconnect()
    hooks.platform.faults["list"] = DENIED
    await remove_due_hooks(hooks.env.db, hooks.env)
    assert await hooks.secret() == ""


async def test_removing_a_connection_removes_webhooks_or_names_those_that_stay(
    hooks: Hooks,
) -> None:
    await hooks.sync()
    await hooks.disconnect()
    db, connection = hooks.env.db, hooks.env.connection
    hooks.platform.faults["list"] = AWAY
    assert await remove_hooks_of_connection(db, hooks.env, connection.id) == ["acme/shop"]
    hooks.platform.faults.clear()
    assert await remove_hooks_of_connection(db, hooks.env, connection.id) == []
    assert hooks.platform.rows == []
    await remove_connection(db, ORGANIZATION, connection.id)


async def test_deleting_an_organization_removes_its_webhooks_as_far_as_possible(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await hooks.sync()

    @asynccontextmanager
    async def open_platforms(*_: object) -> AsyncIterator[SyncEnvironment]:
        yield hooks.env

    monkeypatch.setattr(deletion, "open_platforms", open_platforms)
    db, settings = hooks.env.db, hooks.env.context.settings
    organization = await find_organization(db, ORGANIZATION)
    hooks.platform.faults["delete"] = AWAY
    await deletion.remove_platform_hooks(db, settings, organization)
    assert "webhooks stay on their platform: acme/shop" in caplog.text
    hooks.platform.faults.clear()
    await deletion.remove_platform_hooks(db, settings, organization)
    assert hooks.platform.rows == []
    assert await hooks.secret() == ""


async def test_webhooks_are_turned_off_and_on(hooks: Hooks) -> None:
    await hooks.sync()
    db, name = hooks.env.db, hooks.env.connection.name
    (row,) = await hook_choices.remove_hooks(db, ORGANIZATION, name, ["acme/shop"])
    assert row.is_removing
    await remove_due_hooks(db, hooks.env)
    assert hooks.platform.rows == []
    assert await hooks.sync() is None
    (row,) = await hook_choices.register_hooks(db, ORGANIZATION, name, [], PUBLIC_URL)
    assert row.state == "pending"
    await hooks.sync()
    assert len(hooks.platform.rows) == 1
    with pytest.raises(Problem, match="acme/none is not connected"):
        await hook_choices.register_hooks(db, ORGANIZATION, name, ["acme/none"], PUBLIC_URL)


async def test_a_webhook_names_only_its_own_repository(hooks: Hooks) -> None:
    await hooks.sync()
    db, connection_id = hooks.env.db, hooks.env.connection.id
    for event, repo_id, status in (
        (HookEvent("push", SHOP), hooks.repo.id, "new"),
        (HookEvent("push", SHOP), "repo_other", "unconnected"),
        (HookEvent("repository"), hooks.repo.id, "unconnected"),
    ):
        delivery_id = f"d-{repo_id}-{event.kind}"
        stored = await record_hook_delivery(db, connection_id, delivery_id, event, repo_id)
        assert stored == status


@pytest.mark.parametrize("choices", [{"with_hooks": False}, {"public_url": "http://127.0.0.1:1"}])
async def test_webhooks_are_not_registered_if_unwanted_or_unreachable(
    database: Database, tmp_path: Path, choices: dict[str, Any]
) -> None:
    hooks = await hooks_environment(database, tmp_path, **choices)
    assert await hooks.sync() is None
    assert hooks.platform.requests == {}


async def test_webhooks_that_were_asked_for_and_cannot_arrive_are_refused(
    database: Database, tmp_path: Path
) -> None:
    with pytest.raises(Problem, match="cannot reach this service at http://localhost:8000"):
        await hooks_environment(
            database, tmp_path, with_hooks=True, public_url="http://localhost:8000"
        )
