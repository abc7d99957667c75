"""One's own account: name, password, sessions, and which organization one stands in."""

import pytest

from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sessions import Origin, list_sessions, start_session
from agentjobs.organizations.users import create_user
from tests.support.users import make_passwords_cheap, write
from tests.unit.web.dashboard.browser import Browser
from tests.unit.web.dashboard.conftest import PASSWORD

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


async def test_the_page_shows_who_one_is_and_where_one_is_signed_in(ada):
    _, here, _ = ada
    page = await here.open("/account")
    for words in ("ada@acme.example", "password", "Firefox this session", "Chrome", "192.0.2.7"):
        assert words in page.text
    assert "current" in page.text


async def test_a_name_is_changed_and_a_refused_one_is_not(ada):
    _, here, _ = ada
    page = await here.send(await here.open("/account"), "/account/name", name="Ada L.")
    assert "Your name was changed." in page.text
    assert page.form("/account/name").value("name") == "Ada L."
    page = await here.send(page, "/account/name", name="x" * 500)
    assert page.status == 400
    assert "A name must be one line" in page.text
    assert page.form("/account/name").value("name") == "x" * 500
    assert (await here.open("/account")).form("/account/name").value("name") == "Ada L."


async def test_a_new_password_signs_everybody_else_out(dashboard, ada):
    _, here, elsewhere = ada
    page = await here.send(
        await here.open("/account"), "/account/password", current=PASSWORD, new=NEW, again=NEW
    )
    assert "Your password was changed." in page.text
    assert page.path == "/account"
    assert (await elsewhere.open("/account")).path.startswith("/sign-in")
    door = await dashboard.anonymous.open("/sign-in")
    fields = {"email": "ada@acme.example", "password": PASSWORD}
    assert (await dashboard.anonymous.send(door, "/sign-in", **fields)).status == 401
    fields["password"] = NEW
    page = await dashboard.anonymous.send(door, "/sign-in", next="/account", **fields)
    assert page.path == "/account"


@pytest.mark.parametrize(
    ("current", "new", "again", "status", "words"),
    [
        (PASSWORD, NEW, NEW + "x", 400, "passwords do not match"),
        ("not it", NEW, NEW, 401, "password"),
        ("", NEW, NEW, 401, "password"),
        (PASSWORD, "short", "short", 400, "10 characters"),
    ],
)
async def test_a_refused_password_changes_nothing_and_is_not_repeated(
    ada, current, new, again, status, words
):
    _, here, elsewhere = ada
    page = await here.send(
        await here.open("/account"), "/account/password", current=current, new=new, again=again
    )
    assert page.status == status
    assert words in page.text
    for name in ("current", "new", "again"):
        assert page.form("/account/password").value(name) == ""
    assert new not in page.html.replace("short", "") or new == "short"
    assert (await elsewhere.open("/account")).status == 200


async def test_who_has_no_password_sets_one_without_a_current_one(dashboard, monkeypatch):
    make_passwords_cheap(monkeypatch)
    page = await dashboard.viewer.open("/account")
    assert "one-time links only" in page.text
    page = await dashboard.viewer.send(page, "/account/password", new=NEW, again=NEW)
    assert "Your password was changed." in page.text
    assert "Change password" in page.text


async def test_who_signs_in_with_the_provider_alone_is_shown_no_password_to_choose(dashboard):
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


async def test_one_browser_is_signed_out_by_itself(dashboard, ada):
    user, here, elsewhere = ada
    page = await here.open("/account")
    (form,) = [form for form in page.forms if form.action.endswith("/end")]
    refused = await dashboard.member.post(
        form.action, [("csrf", (await dashboard.member.open("/account")).forms[0].value("csrf"))]
    )
    assert refused.status == 404
    assert (await elsewhere.open("/account")).status == 200
    page = await here.send(page, form.action)
    assert "The session was ended." in page.text
    assert "Chrome" not in page.text
    assert (await elsewhere.open("/account")).path.startswith("/sign-in")
    # By its own id, this one as well.
    (session,) = await list_sessions(dashboard.db, user.id)
    csrf = [("csrf", page.form("/sign-out").value("csrf"))]
    page = await here.post(f"/account/sessions/{session.id}/end", csrf)
    assert page.path.startswith("/sign-in")
    assert "agentjobs-session-8080" not in here.http.cookies


async def test_one_signs_out_everywhere_here_included(ada):
    _, here, elsewhere = ada
    page = await here.send(await here.open("/account"), "/end-all")
    assert page.path.startswith("/sign-in")
    assert "You have signed out everywhere." in page.text
    assert "agentjobs-session-8080" not in here.http.cookies
    for browser in (here, elsewhere):
        assert (await browser.open("/account")).path.startswith("/sign-in")


async def test_everybody_else_is_signed_out(ada):
    _, here, elsewhere = ada
    page = await here.send(await here.open("/account"), "/end-others")
    assert "All other sessions were ended." in page.text
    assert (await elsewhere.open("/account")).path.startswith("/sign-in")
    page = await here.send(page, "/end-others")
    assert "There were no other sessions." in page.text


async def test_one_goes_to_another_of_ones_organizations(dashboard, ada):
    user, here, elsewhere = ada
    await add_member(dashboard.db, dashboard.other.organization_id, user.id, "viewer")
    page = await here.open("/account")
    await here.send(page, "/account/organization")
    page = await here.open("/account")
    assert "viewer of other" in page.text
    assert (await here.open("/repos/other/shop")).status == 200
    assert (await here.open("/repos/acme/shop")).status == 404
    # The other browser stays where it was.
    assert "member of acme" in (await elsewhere.open("/account")).text


async def test_nobody_goes_where_they_are_no_member(ada):
    _, here, _ = ada
    csrf = (await here.open("/account")).form("/sign-out").value("csrf")
    for name in ("other", "nowhere"):
        page = await here.post("/account/organization", [("csrf", csrf), ("organization", name)])
        assert page.status == 400
        assert f"You are not a member of '{name}'" in page.text
        assert "member of acme" in page.text


async def test_going_to_another_organization_leads_on_to_where_one_wanted(dashboard):
    ours = dashboard.caller.organization_id
    user, browser = await dashboard.add_user("two@acme.example", ours, "viewer")
    await add_member(dashboard.db, dashboard.other.organization_id, user.id, "viewer")
    for wanted, reached in (("/agents", "/agents"), ("//evil.example", "/"), ("", "/")):
        page = await browser.open("/account")
        form = page.form("/account/organization")
        fields = [*form.fields, ("next", wanted)]
        assert (await browser.post("/account/organization", fields)).path == reached
