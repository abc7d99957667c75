"""Settings, members: listing, inviting, changing roles and removing."""

import re

import pytest

from tests.unit.web.dashboard.browser import Browser

HERE = "/settings/members"


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
    assert log.text.count("signed a member out: member@acme.example") == 1


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
