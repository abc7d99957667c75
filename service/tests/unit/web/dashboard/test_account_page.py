"""/account: name, password, sessions and the current organization."""

import pytest

from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sessions import Origin, list_sessions, start_session
from service.tests.unit.web.dashboard.browser import Browser
from service.tests.unit.web.dashboard.conftest import PASSWORD
from tests.support.users import create_user, make_passwords_cheap, write

NEW = "a new long password"


@pytest.fixture
async def ada(dashboard, monkeypatch):
    """A member of acme with a password, in two browsers."""
    make_passwords_cheap(monkeypatch)
    user = await create_user(dashboard.db, "ada@acme.example", name="Ada", password=PASSWORD)
    await add_member(dashboard.db, dashboard.caller.organization_id, user.id, "member")
    browsers = []
    for agent in ("Firefox", "Chrome"):
        origin = Origin("192.0.2.7", agent)
        token = await start_session(dashboard.db, dashboard.context.settings, user.id, origin)
        browsers.append(Browser(dashboard.app, token))
    yield user, *browsers
    for browser in browsers:
        await browser.close()


async def test_the_account_page_shows_the_user_and_their_sessions(ada):
    _, browser, _ = ada
    page = await browser.open("/account")
    for text in ("ada@acme.example", "password", "Firefox this session", "Chrome", "192.0.2.7"):
        assert text in page.text
    assert "current" in page.text


async def test_a_valid_name_is_saved_and_an_invalid_one_is_not(ada):
    _, browser, _ = ada
    page = await browser.send(await browser.open("/account"), "/account/name", name="Ada L.")
    assert "Your name was changed." in page.text
    assert page.form("/account/name").value("name") == "Ada L."
    page = await browser.send(page, "/account/name", name="x" * 500)
    assert page.status == 400
    assert "A name must be one line" in page.text
    assert page.form("/account/name").value("name") == "x" * 500
    assert (await browser.open("/account")).form("/account/name").value("name") == "Ada L."


async def test_changing_the_password_ends_all_other_sessions(dashboard, ada):
    _, browser, other_browser = ada
    page = await browser.send(
        await browser.open("/account"), "/account/password", current=PASSWORD, new=NEW, again=NEW
    )
    assert "Your password was changed." in page.text
    assert page.path == "/account"
    assert (await other_browser.open("/account")).path.startswith("/sign-in")
    sign_in_page = await dashboard.anonymous.open("/sign-in")
    fields = {"email": "ada@acme.example", "password": PASSWORD}
    assert (await dashboard.anonymous.send(sign_in_page, "/sign-in", **fields)).status == 401
    fields["password"] = NEW
    page = await dashboard.anonymous.send(sign_in_page, "/sign-in", next="/account", **fields)
    assert page.path == "/account"


@pytest.mark.parametrize(
    ("current", "new", "again", "status", "text"),
    [
        (PASSWORD, NEW, NEW + "x", 400, "passwords do not match"),
        ("not it", NEW, NEW, 401, "password"),
        ("", NEW, NEW, 401, "password"),
        (PASSWORD, "short", "short", 400, "10 characters"),
    ],
)
async def test_a_rejected_password_is_not_saved_or_shown_again(
    ada, current, new, again, status, text
):
    _, browser, other_browser = ada
    page = await browser.send(
        await browser.open("/account"), "/account/password", current=current, new=new, again=again
    )
    assert page.status == status
    assert text in page.text
    for name in ("current", "new", "again"):
        assert page.form("/account/password").value(name) == ""
    assert new not in page.html.replace("short", "") or new == "short"
    assert (await other_browser.open("/account")).status == 200


async def test_a_user_without_a_password_sets_one_without_a_current_password(
    dashboard, monkeypatch
):
    make_passwords_cheap(monkeypatch)
    page = await dashboard.viewer.open("/account")
    assert "one-time links only" in page.text
    page = await dashboard.viewer.send(page, "/account/password", new=NEW, again=NEW)
    assert "Your password was changed." in page.text
    assert "Change password" in page.text


async def test_a_user_of_an_identity_provider_cannot_set_a_password(dashboard):
    await write(
        dashboard.db,
        "UPDATE users SET oidc_issuer = 'https://id.example', oidc_subject = '1'"
        " WHERE email = 'viewer@acme.example'",
    )
    page = await dashboard.viewer.open("/account")
    assert not page.has_form("/account/password")
    assert "agentjobs users set-password" in page.text
    csrf = page.form("/sign-out").value("csrf")
    fields = [("csrf", csrf), ("new", NEW), ("again", NEW)]
    page = await dashboard.viewer.post("/account/password", fields)
    assert page.status == 403
    assert "You sign in with your organization's identity provider" in page.text
    assert (await dashboard.viewer.open("/account")).status == 200


async def test_a_user_ends_a_single_session(dashboard, ada):
    user, browser, other_browser = ada
    page = await browser.open("/account")
    (form,) = [form for form in page.forms if form.action.endswith("/end")]
    error_page = await dashboard.member.post(
        form.action, [("csrf", (await dashboard.member.open("/account")).forms[0].value("csrf"))]
    )
    assert error_page.status == 404
    assert (await other_browser.open("/account")).status == 200
    page = await browser.send(page, form.action)
    assert "The session was ended." in page.text
    assert "Chrome" not in page.text
    assert (await other_browser.open("/account")).path.startswith("/sign-in")
    # The current session can be ended by its ID, too.
    (session,) = await list_sessions(dashboard.db, user.id)
    csrf = [("csrf", page.form("/sign-out").value("csrf"))]
    page = await browser.post(f"/account/sessions/{session.id}/end", csrf)
    assert page.path.startswith("/sign-in")
    assert "agentjobs-session-8080" not in browser.http.cookies


async def test_signing_out_everywhere_includes_the_current_session(ada):
    _, browser, other_browser = ada
    page = await browser.send(await browser.open("/account"), "/end-all")
    assert page.path.startswith("/sign-in")
    assert "You have signed out everywhere." in page.text
    assert "agentjobs-session-8080" not in browser.http.cookies
    for each_browser in (browser, other_browser):
        assert (await each_browser.open("/account")).path.startswith("/sign-in")


async def test_a_user_ends_all_other_sessions(ada):
    _, browser, other_browser = ada
    page = await browser.send(await browser.open("/account"), "/end-others")
    assert "All other sessions were ended." in page.text
    assert (await other_browser.open("/account")).path.startswith("/sign-in")
    page = await browser.send(page, "/end-others")
    assert "There were no other sessions." in page.text


async def test_a_user_switches_to_another_of_their_organizations(dashboard, ada):
    user, browser, other_browser = ada
    await add_member(dashboard.db, dashboard.other.organization_id, user.id, "viewer")
    page = await browser.open("/account")
    await browser.send(page, "/account/organization")
    page = await browser.open("/account")
    assert "viewer of other" in page.text
    assert (await browser.open("/repos/other/shop")).status == 200
    assert (await browser.open("/repos/acme/shop")).status == 404
    # The other browser stays in its organization.
    assert "member of acme" in (await other_browser.open("/account")).text


async def test_a_user_cannot_switch_to_an_organization_without_membership(ada):
    _, browser, _ = ada
    csrf = (await browser.open("/account")).form("/sign-out").value("csrf")
    for name in ("other", "nowhere"):
        page = await browser.post("/account/organization", [("csrf", csrf), ("organization", name)])
        assert page.status == 400
        assert f"You are not a member of '{name}'" in page.text
        assert "member of acme" in page.text


async def test_switching_organizations_redirects_to_the_requested_local_path(dashboard):
    organization_id = dashboard.caller.organization_id
    user, browser = await dashboard.add_user("two@acme.example", organization_id, "viewer")
    await add_member(dashboard.db, dashboard.other.organization_id, user.id, "viewer")
    for next_path, expected_path in (("/agents", "/agents"), ("//evil.example", "/"), ("", "/")):
        page = await browser.open("/account")
        form = page.form("/account/organization")
        fields = [*form.fields, ("next", next_path)]
        assert (await browser.post("/account/organization", fields)).path == expected_path
