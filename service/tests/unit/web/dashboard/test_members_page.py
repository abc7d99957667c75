"""Settings, members: listing, inviting, changing roles and removing."""

import re

import pytest

from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.password_resets import create_reset_link
from agentjobs.web.dashboard.settings import members
from service.tests.unit.web.dashboard.browser import Browser
from tests.support.users import make_passwords_cheap, write

HERE = "/settings/members"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)


async def invited(sample_dashboard, email="grace@acme.example", role="viewer"):
    page = await sample_dashboard.admin.open(HERE)
    return await sample_dashboard.admin.send(page, "/invitations", email=email, role=role)


async def test_members_are_listed_and_only_administrators_change_them(sample_dashboard):
    page = await sample_dashboard.member.open(HERE)
    for text in ("admin@acme.example", "viewer@acme.example", "spare@acme.example"):
        assert text in page.text
    assert "@other.example" not in page.text
    assert "new@acme.example" not in page.text
    assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]
    page = await sample_dashboard.admin.open(HERE)
    assert "new@acme.example" in page.text


async def test_an_invitation_is_a_link_that_is_shown_once(sample_dashboard):
    page = await invited(sample_dashboard)
    link = re.search(r"http://127\.0\.0\.1:8080(/invitation\?token=aji_\w+)", page.text)
    assert link is not None
    assert (await Browser(sample_dashboard.app).open(link[1])).status == 200
    page = await sample_dashboard.admin.open(HERE)
    assert "grace@acme.example" in page.text
    assert "aji_" not in page.html


@pytest.mark.parametrize(
    ("email", "role"),
    [("no address", "viewer"), ("member@acme.example", "admin"), ("x@acme.example", "owner")],
)
async def test_a_rejected_invitation_keeps_the_entered_values(sample_dashboard, email, role):
    page = await invited(sample_dashboard, email, role)
    assert page.status == 400
    assert page.form("/invitations").value("email") == email
    assert "token=" not in page.text


async def test_a_withdrawn_invitation_is_rejected(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    page, stale = await sample_dashboard.admin.open_twice(HERE)
    done = await sample_dashboard.admin.send(page, f"{samples.invitation}/withdraw")
    assert "Its link no longer works" in done.text
    assert "new@acme.example" not in done.text
    address = f"/invitation?token={samples.invitation_token}"
    assert (await sample_dashboard.anonymous.open(address)).status == 400
    repeated = await sample_dashboard.admin.send(stale, f"{samples.invitation}/withdraw")
    assert repeated.status == 404


async def test_a_changed_role_applies_immediately(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'viewer@acme.example'"
    )
    page, stale = await sample_dashboard.admin.open_twice(HERE)
    assert (await sample_dashboard.viewer.open("/jobs/new")).status == 403
    done = await sample_dashboard.admin.send(page, f"{row['id']}/role", role="member")
    assert "The role was changed." in done.text
    assert (await sample_dashboard.viewer.open("/jobs/new")).status == 200
    error_page = await sample_dashboard.admin.send(stale, f"{row['id']}/role", role="owner")
    assert error_page.status == 400
    assert "Unknown role" in error_page.text


async def test_a_removed_member_loses_access_immediately(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'member@acme.example'"
    )
    page, stale = await sample_dashboard.admin.open_twice(HERE)
    done = await sample_dashboard.admin.send(page, f"{row['id']}/remove")
    assert "The member was removed" in done.text
    assert "member@acme.example" not in done.text
    assert (await sample_dashboard.member.open("/jobs")).path.startswith("/sign-in")
    repeated = await sample_dashboard.admin.send(stale, f"{row['id']}/remove")
    assert repeated.status == 404


async def test_an_administrator_ends_the_sessions_of_a_member(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'member@acme.example'"
    )
    page, stale = await sample_dashboard.admin.open_twice(HERE)
    done = await sample_dashboard.admin.send(page, f"{row['id']}/sign-out")
    assert "The member was signed out." in done.text
    assert "member@acme.example" in done.text
    assert (await sample_dashboard.member.open("/jobs")).path.startswith("/sign-in")
    repeated = await sample_dashboard.admin.send(stale, f"{row['id']}/sign-out")
    assert "The member was not signed in to acme." in repeated.text
    log = await sample_dashboard.admin.open("/settings/audit-log?action=member.signed_out")
    assert log.text.count("Member signed out: member@acme.example") == 1


async def test_an_administrator_makes_a_password_reset_link_that_is_shown_once(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'member@acme.example'"
    )
    page, stale = await sample_dashboard.admin.open_twice(HERE)
    done = await sample_dashboard.admin.send(page, f"{row['id']}/reset-password")
    assert "Password reset link for member@acme.example" in done.text
    link = re.search(r"http://127\.0\.0\.1:8080(/password-reset\?token=ajr_\w+)", done.text)
    assert link is not None
    assert "ajr_" not in (await sample_dashboard.admin.open(HERE)).html
    log = await sample_dashboard.admin.open("/settings/audit-log?action=password")
    assert "Password reset link created: member@acme.example" in log.text

    page = await sample_dashboard.anonymous.open(link[1])
    fields = {"new": "a quite new password", "again": "a quite new password"}
    page = await sample_dashboard.anonymous.send(page, "/password-reset", **fields)
    assert "Your password was changed, and you were signed out everywhere else." in page.text
    assert (await sample_dashboard.member.open("/jobs")).path.startswith("/sign-in")
    page = await sample_dashboard.member.open(link[1])
    assert page.status == 400
    assert "Ask an admin of your organization for a new one" in page.text
    assert "/sign-in" in page.links
    log = await sample_dashboard.admin.open("/settings/audit-log?action=password.reset")
    assert "Password reset: member@acme.example" in log.text
    page = await sample_dashboard.admin.send(stale, f"{row['id']}/reset-password")
    assert "Password reset link for" in page.text


async def test_a_session_that_ends_during_the_request_makes_no_reset_link(
    sample_dashboard, monkeypatch
):
    db = sample_dashboard.db
    row = await db.fetch_one("SELECT id FROM users WHERE email = 'member@acme.example'")

    async def create_after_the_end(*args, **options):
        await write(db, "DELETE FROM sessions")
        return await create_reset_link(*args, **options)

    monkeypatch.setattr(members, "create_reset_link", create_after_the_end)
    page = await sample_dashboard.admin.open(HERE)
    done = await sample_dashboard.admin.send(page, f"{row['id']}/reset-password")
    assert (done.status, "ajr_" in done.html) == (401, False)


async def test_a_refused_reset_link_says_what_to_do(sample_dashboard):
    db = sample_dashboard.db
    rows = await db.fetch_all("SELECT id, email FROM users WHERE email LIKE '%@acme.example'")
    ids = {row["email"].partition("@")[0]: row["id"] for row in rows}
    page, stale = await sample_dashboard.admin.open_twice(HERE)
    assert not page.has_form(f"{ids['admin']}/reset-password")
    await write(db, "UPDATE users SET is_operator = true WHERE id = :id", id=ids["member"])
    error_page = await sample_dashboard.admin.send(page, f"{ids['member']}/reset-password")
    assert error_page.status == 400
    assert "agentjobs users reset-link member@acme.example" in error_page.text
    await add_member(db, sample_dashboard.other.organization_id, ids["viewer"], "viewer")
    error_page = await sample_dashboard.admin.send(stale, f"{ids['viewer']}/reset-password")
    assert "also belongs to another organization" in error_page.text


@pytest.mark.parametrize(
    ("new", "again", "text"), [("one password", "another one", "do not match"), ("x", "x", "10")]
)
async def test_a_rejected_new_password_keeps_the_link(sample_dashboard, new, again, text):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'member@acme.example'"
    )
    _, token = await create_reset_link(sample_dashboard.db, row["id"])
    browser, address = sample_dashboard.anonymous, f"/password-reset?token={token}"
    page = await browser.send(await browser.open(address), "/password-reset", new=new, again=again)
    assert (page.status, text in page.text) == (400, True)
    assert page.form("/password-reset").value("token") == token
    assert (await browser.open(address)).status == 200


async def test_only_a_form_of_this_site_uses_a_reset_link(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'member@acme.example'"
    )
    _, token = await create_reset_link(sample_dashboard.db, row["id"])
    http, address = sample_dashboard.anonymous.http, f"/password-reset?token={token}"
    form = {"token": token, "new": "a quite new password", "again": "a quite new password"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = await http.post("/password-reset", data=form, headers=headers)
        assert refused.status_code == 403
    too_long = await http.post("/password-reset", data={**form, "name": "x" * 1_000_000})
    assert too_long.status_code == 413
    # Programs that preview links open them first.
    for method in ("HEAD", "GET", "GET"):
        opened = await http.request(method, address)
        assert (opened.status_code, "set-cookie" in opened.headers) == (200, False)
        assert opened.headers["cache-control"] == "private, no-store"
        assert opened.headers["referrer-policy"] == "same-origin"
    assert (await http.post("/password-reset", data=form)).status_code == 303


async def test_the_last_administrator_cannot_be_demoted_or_removed(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'admin@acme.example'"
    )
    page = await sample_dashboard.admin.open(HERE)
    for action, values in (("role", {"role": "member"}), ("remove", {})):
        error_page = await sample_dashboard.admin.send(page, f"{row['id']}/{action}", **values)
        assert error_page.status == 400
        assert "admin" in error_page.text
    assert (await sample_dashboard.admin.open("/settings/api-keys")).status == 200


async def test_the_members_of_a_large_organization_are_searched(sample_dashboard, monkeypatch):
    monkeypatch.setattr("agentjobs.web.dashboard.settings.members._MAX_SHOWN", 2)
    page = await sample_dashboard.member.open(HERE)
    assert "The first 2 of " in page.text
    assert "viewer@acme.example" not in page.text
    page = await sample_dashboard.member.open(f"{HERE}?q=VIEWER@")
    assert "viewer@acme.example" in page.text
    assert "The first" not in page.text
    page = await sample_dashboard.member.open(f"{HERE}?q=nobody")
    assert "No members match this search" in page.text
