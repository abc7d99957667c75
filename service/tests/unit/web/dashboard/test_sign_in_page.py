"""Signing in and out, as a browser does it."""

import pytest

from agentjobs.organizations.identities import Identity
from agentjobs.organizations.invitations import invite
from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sign_in_links import create_link
from agentjobs.web.openid.sign_in import Finished
from service.tests.unit.web.dashboard.browser import ADDRESS, Browser
from service.tests.unit.web.dashboard.conftest import PASSWORD, Dashboard
from tests.support.users import create_user, make_passwords_cheap


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)


@pytest.fixture
async def ada(dashboard: Dashboard):
    user = await create_user(dashboard.db, "ada@acme.example", name="Ada", password=PASSWORD)
    await add_member(dashboard.db, dashboard.caller.organization_id, user.id, "member")
    return user


async def test_an_anonymous_user_is_redirected_to_sign_in_and_back(dashboard, ada):
    page = await dashboard.anonymous.open("/account?x=1")
    assert page.path == "/sign-in?next=/account%3Fx%3D1"
    page = await dashboard.anonymous.send(
        page, "/sign-in", email="Ada@acme.example", password=PASSWORD
    )
    assert page.path == "/account?x=1"


async def test_a_wrong_password_and_an_unknown_email_have_the_same_error(dashboard, ada):
    sign_in_page = await dashboard.anonymous.open("/sign-in")
    wrong = await dashboard.anonymous.send(
        sign_in_page, "/sign-in", email="ada@acme.example", password="no"
    )
    unknown = await dashboard.anonymous.send(
        sign_in_page, "/sign-in", email="x@acme.example", password="no"
    )
    assert wrong.status == unknown.status == 401
    assert wrong.text.replace("ada@", "") == unknown.text.replace("x@", "")
    assert wrong.form("/sign-in").value("email") == "ada@acme.example"
    assert wrong.form("/sign-in").value("password") == ""


async def test_a_sign_in_link_works_once(dashboard, ada):
    token = await create_link(dashboard.db, ada.id)
    browser = dashboard.anonymous
    assert (await browser.http.head(f"/sign-in?token={token}")).status_code == 200
    response = await browser.get(f"/sign-in?token={token}")
    assert response.status_code == 303
    assert response.headers["location"] == "/"
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    repeated = Browser(dashboard.app)
    page = await repeated.open(f"/sign-in?token={token}")
    assert page.status == 400
    assert "already used" in page.text


async def test_the_session_changes_at_sign_in_and_ends_at_sign_out(dashboard, ada):
    browser = dashboard.member
    before = browser.http.cookies["agentjobs-session-8080"]
    await browser.open(f"/sign-in?token={await create_link(dashboard.db, ada.id)}")
    after = browser.http.cookies["agentjobs-session-8080"]
    assert before != after
    stale = Browser(dashboard.app, before)
    assert (await stale.open("/account")).path.startswith("/sign-in")
    page = await browser.send(await browser.open("/account"), "/sign-out")
    assert "You have signed out." in page.text
    stale = Browser(dashboard.app, after)
    assert (await stale.open("/account")).path.startswith("/sign-in")


@pytest.mark.parametrize(
    "next_path",
    [
        "//evil.example/x",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/x\ny",
        "\\/evil.example",
    ],
)
async def test_sign_in_never_redirects_to_another_site(dashboard, ada, next_path):
    sign_in_page = await dashboard.anonymous.open("/sign-in", params={"next": next_path})
    assert sign_in_page.form("/sign-in").value("next") == "/"
    response = await dashboard.anonymous.http.post(
        "/sign-in",
        data={"email": "ada@acme.example", "password": PASSWORD, "next": next_path},
        headers={"Origin": ADDRESS},
    )
    assert response.status_code == 303
    assert response.headers["location"] == "/"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
async def test_a_form_on_another_site_cannot_sign_users_in_or_out(dashboard, ada, origin):
    fields = [("email", "ada@acme.example"), ("password", PASSWORD)]
    error_page = await dashboard.anonymous.post("/sign-in", fields, Origin=origin)
    assert error_page.status == 403
    page = await dashboard.member.open("/account")
    csrf = page.form("/sign-out").value("csrf")
    error_page = await dashboard.member.post("/sign-out", [("csrf", csrf)], Origin=origin)
    assert error_page.status == 403
    assert (await dashboard.member.open("/account")).status == 200


async def test_a_change_requires_the_csrf_token(dashboard):
    for fields in ([], [("csrf", "")], [("csrf", "x" * 43)]):
        error_page = await dashboard.member.post("/sign-out", fields)
        assert error_page.status == 403
        assert "nothing was changed" in error_page.text


async def test_a_json_client_gets_the_error_shape(dashboard):
    response = await dashboard.anonymous.get("/account", headers={"Accept": "application/json"})
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "not_signed_in"
    assert response.json()["error"]["request_id"] == response.headers["x-request-id"]


async def test_no_page_can_be_framed_or_load_foreign_scripts(dashboard):
    headers = (await dashboard.anonymous.get("/sign-in")).headers
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


class VerifiedProvider:
    """A provider with a verified identity for a user who has an invitation."""

    def __init__(self, invitation: str) -> None:
        self._invitation = invitation

    async def finish(self, _cookie: str, _params: dict[str, str]) -> Finished:
        identity = Identity(
            issuer="https://id.example",
            subject="ada-1",
            email="ada@acme.example",
            email_verified=True,
        )
        return Finished(identity=identity, next="/account", invitation=self._invitation)

    async def close(self) -> None: ...


async def test_signing_in_with_an_invitation_opens_its_organization(dashboard, ada):
    other = dashboard.other.organization_id
    _, token = await invite(dashboard.db, other, "ada@acme.example", "viewer")
    dashboard.context.openid = VerifiedProvider(token)
    page = await dashboard.anonymous.open("/sign-in/oidc/callback?code=1")
    assert page.path == "/account"
    assert "viewer of other" in page.text
    assert "Switch to acme" in page.text


async def test_a_signed_in_user_is_redirected_from_sign_in(dashboard):
    assert (await dashboard.member.open("/sign-in")).path == "/"
    # An invitation may be for another user, so the form is shown.
    page = await dashboard.member.open("/sign-in", params={"next": "/invitation?token=x"})
    assert page.has_form("/sign-in")
