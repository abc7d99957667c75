"""/invitation: joining as a new or an existing user."""

import pytest

from agentjobs.organizations.invitations import invite
from agentjobs.organizations.memberships import add_member
from service.tests.unit.web.dashboard.browser import Browser
from service.tests.unit.web.dashboard.conftest import PASSWORD
from tests.support.users import create_user, make_passwords_cheap, write

EMAIL = "grace@new.example"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)


@pytest.fixture
async def link(dashboard):
    """An invitation to acme as a member."""
    _, token = await invite(dashboard.db, dashboard.caller.organization_id, EMAIL, "member")
    return f"/invitation?token={token}"


async def members(dashboard):
    rows = await dashboard.db.fetch_all(
        "SELECT u.email, m.role FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.organization_id = :id",
        id=dashboard.caller.organization_id,
    )
    return {row["email"]: row["role"] for row in rows}


async def has_account(dashboard, organization=None):
    """Create an account for Grace and sign in."""
    await create_user(dashboard.db, EMAIL, password=PASSWORD)
    row = await dashboard.db.fetch_one("SELECT id FROM users WHERE email = :email", email=EMAIL)
    await add_member(dashboard.db, dashboard.other.organization_id, row["id"], "viewer")
    browser = Browser(dashboard.app)
    sign_in_page = await browser.open("/sign-in")
    await browser.send(sign_in_page, "/sign-in", email=EMAIL, password=PASSWORD)
    return browser


async def test_a_new_user_joins_with_a_name_and_a_password(dashboard, link):
    page = await dashboard.anonymous.open(link)
    assert "Join acme" in page.text
    assert f"invited {EMAIL} to join acme as a member" in page.text
    await dashboard.anonymous.send(
        page, "/invitation", name="Grace", password=PASSWORD, again=PASSWORD
    )
    assert (await members(dashboard))[EMAIL] == "member"
    page = await dashboard.anonymous.open("/account")
    assert "Grace" in page.text
    assert "member of acme" in page.text


@pytest.mark.parametrize(
    ("password", "again", "text"),
    [(PASSWORD, PASSWORD + "x", "passwords do not match"), ("short", "short", "10")],
)
async def test_a_rejected_password_keeps_only_the_name_in_the_form(
    dashboard, link, password, again, text
):
    page = await dashboard.anonymous.open(link)
    page = await dashboard.anonymous.send(
        page, "/invitation", name="Grace", password=password, again=again
    )
    assert page.status == 400
    assert text in page.text
    form = page.form("/invitation")
    assert form.value("name") == "Grace"
    assert form.value("password") == form.value("again") == ""
    assert EMAIL not in await members(dashboard)


async def test_a_signed_out_user_with_an_account_is_sent_to_sign_in(dashboard, link):
    await has_account(dashboard)
    page = await dashboard.anonymous.open(link)
    assert not page.has_form("/invitation")
    (sign_in_path,) = [href for href in page.links if href.startswith("/sign-in?next=")]
    page = await dashboard.anonymous.open(sign_in_path)
    page = await dashboard.anonymous.send(page, "/sign-in", email=EMAIL, password=PASSWORD)
    assert page.path == link
    await dashboard.anonymous.send(page, "/invitation")
    assert (await members(dashboard))[EMAIL] == "member"


async def test_an_invitation_does_not_give_access_to_an_existing_account(dashboard, link):
    await has_account(dashboard)
    token = link.partition("=")[2]
    fields = [("token", token), ("name", "Eve"), ("password", PASSWORD), ("again", PASSWORD)]
    page = await dashboard.anonymous.post("/invitation", fields)
    assert page.status == 400
    assert f"Sign in as {EMAIL} first" in page.text
    assert EMAIL not in await members(dashboard)


async def test_an_invited_user_who_is_signed_in_joins_without_a_password(dashboard, link):
    browser = await has_account(dashboard)
    page = await browser.open(link)
    assert page.form("/invitation").value("password") == ""
    await browser.send(page, "/invitation")
    assert (await members(dashboard))[EMAIL] == "member"
    page = await browser.open("/account")
    assert "member of acme" in page.text
    assert "Switch to other" in page.text


async def test_a_user_cannot_accept_an_invitation_of_another_user(dashboard, link):
    await has_account(dashboard)
    page = await dashboard.outsider.open(link)
    assert "You are signed in as eve@other.example." in page.text
    assert not page.has_form("/invitation")
    fields = [("token", link.partition("=")[2])]
    page = await dashboard.outsider.post("/invitation", fields)
    assert page.status == 400
    assert "eve@other.example" not in await members(dashboard)


async def test_an_invitation_works_once(dashboard, link):
    page = await dashboard.anonymous.open(link)
    fields = {"name": "Grace", "password": PASSWORD, "again": PASSWORD}
    await dashboard.anonymous.send(page, "/invitation", **fields)
    second = Browser(dashboard.app)
    page = await second.send(page, "/invitation", **fields)
    assert page.status == 400
    assert "This invitation was already accepted" in page.text
    assert (await second.open(link)).status == 400
    assert (await second.open("/account")).path.startswith("/sign-in")


@pytest.mark.parametrize("token", ["", "aji_nothing", "x" * 5_000])
async def test_an_invalid_token_is_rejected(dashboard, token):
    page = await dashboard.anonymous.open("/invitation", params={"token": token})
    assert page.status == 400
    assert not page.has_form("/invitation")


async def test_an_expired_invitation_tells_the_user_to_ask_an_admin(dashboard, link):
    await write(dashboard.db, "UPDATE invitations SET expires_at = 1")
    page = await dashboard.anonymous.open(link)
    assert page.status == 400
    assert "Ask an admin of the organization for a new one" in page.text
