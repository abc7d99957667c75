"""Settings, API keys: creating, showing once, using and revoking them."""

import pytest

from agentjobs.organizations.api_keys import CreatedKey, create_key, list_keys, revoke_key
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import DAY_MS, now_ms
from service.tests.unit.web.dashboard.browser import PAYLOAD, Browser, Page
from service.tests.unit.web.dashboard.conftest import Dashboard

PATH = "/settings/api-keys"


async def submit_new_key(browser: Browser, **values: str | None) -> Page:
    page = await browser.open(PATH)
    return await browser.send(page, PATH, **{"name": "CI", **values})


def shown_key(page: Page) -> str:
    return page.html.partition('id="new-key"')[2].partition(">")[2].partition("<")[0]


async def expire(tx: Transaction, key_id: str) -> None:
    await tx.execute("UPDATE api_keys SET expires_at = 1 WHERE id = :id", id=key_id)


async def key_of(dashboard: Dashboard, organization: str, name: str) -> CreatedKey:
    return await create_key(dashboard.db, organization, name=name)


async def test_a_new_key_is_shown_once_and_is_accepted_by_the_api(dashboard: Dashboard) -> None:
    page = await submit_new_key(dashboard.admin)
    key = shown_key(page)
    assert page.status == 200
    assert "Copy it now" in page.text
    assert f'http://127.0.0.1:8080/v1/agents -H "Authorization: Bearer {key}"' in page.text
    response = await dashboard.anonymous.get(
        "/v1/agents", headers={"Authorization": f"Bearer {key}"}
    )
    assert response.status_code == 200
    later = await dashboard.admin.open(PATH)
    assert key not in later.html
    assert f"…{key[-4:]}" in later.text


async def test_the_page_with_a_new_key_is_not_cached(dashboard: Dashboard) -> None:
    page = await submit_new_key(dashboard.admin)
    assert "no-store" in page.response.headers["cache-control"]


@pytest.mark.parametrize(
    ("expires", "days", "expected"),
    [("30", "", 30), ("365", "", 365), ("own", "7", 7), ("never", "", None), ("never", "9", None)],
)
async def test_a_key_expires_after_the_chosen_number_of_days(
    dashboard: Dashboard, expires: str, days: str, expected: int | None
) -> None:
    await submit_new_key(dashboard.admin, name="timed", expires=expires, days=days)
    [key] = [key for key in await list_keys(dashboard.db, "acme") if key.name == "timed"]
    # The two times are read one after the other.
    lives = key.expires_at and round((key.expires_at - key.created_at) / DAY_MS)
    assert lives == expected


async def test_a_key_has_the_chosen_scope_and_git_permission(dashboard: Dashboard) -> None:
    await submit_new_key(dashboard.admin, name="reader", scope="read")
    await submit_new_key(dashboard.admin, name="pusher", scope="jobs", git_write="yes")
    await submit_new_key(dashboard.admin, name="merger", scope="jobs", pulls="yes")
    keys = {key.name: key for key in await list_keys(dashboard.db, "acme")}
    assert (keys["reader"].scope, keys["reader"].git_write) == ("read", False)
    assert (keys["pusher"].scope, keys["pusher"].git_write) == ("jobs", True)
    assert (keys["merger"].scope, keys["merger"].git_write) == ("jobs pulls", False)
    page = await dashboard.admin.get("/settings/api-keys")
    assert page.text.count("pull requests</span>") == 1


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"name": ""}, "Enter a name"),
        ({"name": "x" * 201}, "at most 200"),
        ({"scope": "read", "git_write": "yes"}, "cannot push"),
        ({"scope": "read", "pulls": "yes"}, "cannot merge"),
        ({"scope": "root"}, "scope is read or jobs"),
        ({"expires": "own", "days": ""}, "Enter the number of days"),
        ({"expires": "own", "days": "0"}, "within 3650 days"),
        ({"expires": "own", "days": "soon"}, "whole number"),
        ({"expires": "17"}, "Choose when"),
    ],
)
async def test_a_rejected_form_keeps_the_entered_values(
    dashboard: Dashboard, values: dict[str, str], text: str
) -> None:
    typed = {"name": "kept", "scope": "jobs", "expires": "own", "days": "12", **values}
    before = await list_keys(dashboard.db, "acme")
    page = await submit_new_key(dashboard.admin, **typed)
    assert page.status == 400
    assert text in page.text
    form = page.form(PATH)
    assert form.value("name") == typed["name"]
    assert form.value("days") == typed["days"]
    assert await list_keys(dashboard.db, "acme") == before


async def test_a_revoked_key_is_rejected_and_listed_separately(dashboard: Dashboard) -> None:
    created = await key_of(dashboard, "acme", "laptop")
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, f"{created.record.id}/revoke")
    assert page.path == PATH
    assert "The key laptop was revoked." in page.text
    assert "1 revoked or expired key" in page.text
    assert not page.has_form(f"{created.record.id}/revoke")
    bearer = {"Authorization": f"Bearer {created.key}"}
    assert (await dashboard.anonymous.get("/v1/agents", headers=bearer)).status_code == 401


async def test_an_expired_key_is_listed_separately(dashboard: Dashboard) -> None:
    created = await key_of(dashboard, "acme", "old")
    await dashboard.db.transact(expire, created.record.id)
    page = await dashboard.admin.open(PATH)
    assert "1 revoked or expired key" in page.text
    assert not page.has_form(f"{created.record.id}/revoke")


async def test_a_key_that_expires_within_days_is_marked(dashboard: Dashboard) -> None:
    await create_key(
        dashboard.db, "acme", name="short", expires_at=await dashboard.db.clock_ms() + 3 * DAY_MS
    )
    assert "expires soon" in (await dashboard.admin.open(PATH)).text


async def test_an_organization_without_active_keys_sees_an_empty_state(
    dashboard: Dashboard,
) -> None:
    for key in await list_keys(dashboard.db, "acme"):
        await dashboard.db.transact(expire, key.id)
    assert "No active keys" in (await dashboard.admin.open(PATH)).text


async def test_keys_of_other_organizations_are_not_shown_and_cannot_be_revoked(
    dashboard: Dashboard,
) -> None:
    other_key = await key_of(dashboard, "other", "their-own-key")
    page = await dashboard.admin.open(PATH)
    assert "their-own-key" not in page.html
    fields = [("csrf", page.form(PATH).value("csrf"))]
    error_page = await dashboard.admin.post(f"{PATH}/{other_key.record.id}/revoke", fields)
    assert error_page.status == 404
    assert "There is no such key" in error_page.text
    assert [key.revoked_at for key in await list_keys(dashboard.db, "other")] == [None, None]


async def test_only_admins_can_open_the_page(dashboard: Dashboard) -> None:
    token = (await dashboard.admin.open(PATH)).form(PATH).value("csrf")
    for browser in (dashboard.member, dashboard.viewer):
        assert (await browser.get(PATH)).status_code == 403
        csrf = (await browser.open("/account")).form("/sign-out").value("csrf")
        assert (await browser.post(PATH, [("csrf", csrf), ("name", "x")])).status == 403
    forged = await dashboard.outsider.post(PATH, [("csrf", token), ("name", "x")])
    assert forged.status == 403
    assert "nothing was changed" in forged.text


async def test_a_hostile_name_is_escaped(dashboard: Dashboard) -> None:
    page = await submit_new_key(dashboard.admin, name=PAYLOAD)
    assert page.is_safe()
    assert PAYLOAD in page.text
    [key] = [key for key in await list_keys(dashboard.db, "acme") if key.name == PAYLOAD]
    page = await dashboard.admin.send(page, f"{key.id}/revoke")
    assert page.is_safe()
    error_page = await submit_new_key(dashboard.admin, name=PAYLOAD, expires="own", days=PAYLOAD)
    assert error_page.is_safe()
    assert error_page.form(PATH).value("days") == PAYLOAD


async def test_the_page_shows_when_a_key_was_last_used(dashboard: Dashboard) -> None:
    created = await key_of(dashboard, "acme", "busy")
    await dashboard.context.authenticator.authenticate(created.key)
    await dashboard.context.authenticator.flush_last_used()
    [key] = [key for key in await list_keys(dashboard.db, "acme") if key.name == "busy"]
    assert key.last_used_at is not None
    assert now_ms() - key.last_used_at < DAY_MS
    page = await dashboard.admin.open(PATH)
    line = page.text.partition("busy")[2].partition("Revoke")[0]
    # Only the expiry is "never".
    assert line.count("never") == 1


async def test_a_key_is_created_with_networks_and_the_table_shows_them(
    dashboard: Dashboard,
) -> None:
    page = await submit_new_key(dashboard.admin, name="office", networks="10.1.0.0/16, 192.0.2.7")
    [key] = [key for key in await list_keys(dashboard.db, "acme") if key.name == "office"]
    assert key.allowed_networks == ("10.1.0.0/16", "192.0.2.7/32")
    assert "10.1.0.0/16" in page.text
    bearer = {"Authorization": f"Bearer {shown_key(page)}"}
    refused = await dashboard.anonymous.get("/v1/agents", headers=bearer)
    assert refused.status_code == 401
    page = await submit_new_key(dashboard.admin, name="office", networks="the office")
    assert page.status == 400
    assert "is not a network" in page.text
    assert page.form(PATH).value("networks") == "the office"


async def test_a_key_is_edited(dashboard: Dashboard) -> None:
    created = await create_key(
        dashboard.db, "acme", name="laptop", expires_at=await dashboard.db.clock_ms() + 3 * DAY_MS
    )
    path = f"{PATH}/{created.record.id}"
    assert path in (await dashboard.admin.open(PATH)).html
    page = await dashboard.admin.open(path)
    page = await dashboard.admin.send(page, path, name="desk", networks="10.0.0.0/8")
    assert "The key desk was changed." in page.text
    [key] = [key for key in await list_keys(dashboard.db, "acme") if key.id == created.record.id]
    assert (key.name, key.allowed_networks) == ("desk", ("10.0.0.0/8",))
    assert key.expires_at == created.record.expires_at

    page = await dashboard.admin.open(path)
    await dashboard.admin.send(page, path, expires="never", networks="")
    [key] = [key for key in await list_keys(dashboard.db, "acme") if key.id == created.record.id]
    assert (key.expires_at, key.allowed_networks) == (None, ())

    page = await dashboard.admin.open(path)
    page = await dashboard.admin.send(page, path, expires="own", days="9999")
    assert page.status == 400
    assert "within 3650 days" in page.text
    assert page.form(path).value("days") == "9999"


async def test_revoked_keys_and_those_of_other_organizations_have_no_page(
    dashboard: Dashboard,
) -> None:
    revoked = await key_of(dashboard, "acme", "old")
    await revoke_key(dashboard.db, "acme", revoked.record.id)
    other = await key_of(dashboard, "other", "theirs")
    for created in (revoked, other):
        page = await dashboard.admin.open(f"{PATH}/{created.record.id}")
        assert page.status == 404
        assert "theirs" not in page.text
