"""Users of two organizations open pages of one while the other is current."""

import pytest

from agentjobs.organizations.memberships import add_member
from agentjobs.web.access_log import AccessLog
from tests.support.users import write

OTHER_PULLS = "/other/other/shop/pulls"


@pytest.fixture
async def both(sample_dashboard):
    """acme's member is a viewer of the organization other as well."""
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'member@acme.example'"
    )
    await add_member(
        sample_dashboard.db, sample_dashboard.other.organization_id, row["id"], "viewer"
    )
    return sample_dashboard


async def current_organization(sample_dashboard):
    page = await sample_dashboard.member.open("/account")
    return "other" if "viewer of other" in page.text else "acme"


async def test_opening_a_page_of_another_organization_switches_to_it(both):
    page = await both.member.open(OTHER_PULLS)
    assert page.status == 200
    assert await current_organization(both) == "other"
    pull = await both.member.open(f"{OTHER_PULLS}/1")
    job = f"/jobs/{both.samples['other'].finished_job}"
    assert job in pull.links
    for path in (job, "/repos/other/shop"):
        assert (await both.member.open(path)).status == 200
    await both.member.open("/acme/acme/shop/pulls")
    assert await current_organization(both) == "acme"


async def test_the_plan_is_that_of_the_opened_organization(both, monkeypatch):
    await write(both.db, "UPDATE organizations SET plan = 'free' WHERE name = 'other'")
    callers = []
    write_log = AccessLog.write

    def write_down(log, scope, status, seconds):
        callers.append(scope["agentjobs.caller"])
        write_log(log, scope, status, seconds)

    monkeypatch.setattr(AccessLog, "write", write_down)
    await both.member.get(OTHER_PULLS)
    (caller,) = callers
    assert (caller.organization, caller.plan, caller.scope) == ("other", "free", "read")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Part": "1"},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Mode": "no-cors"},
        {"Accept": "text/event-stream"},
    ],
)
async def test_background_requests_do_not_switch_organizations(both, headers):
    assert (await both.member.get(OTHER_PULLS, headers=headers)).status_code == 200
    assert await current_organization(both) == "acme"


async def test_a_form_uses_the_organization_and_role_of_its_url(both):
    page = await both.member.open("/account")
    fields = [("csrf", page.form("/sign-out").value("csrf")), ("body", "Hello")]
    error_page = await both.member.post(f"{OTHER_PULLS}/1/comments", fields)
    assert error_page.status == 403
    assert "your role in other is viewer" in error_page.text
    await write(both.db, "UPDATE memberships SET role = 'member' WHERE role = 'viewer'")
    comments = "SELECT COUNT(*) AS n FROM pull_comments WHERE body = 'Hello'"
    assert (await both.db.fetch_one(comments))["n"] == 0
    response = await both.member.http.post(
        f"{OTHER_PULLS}/1/comments", data=dict(fields), headers={"Origin": "http://127.0.0.1:8080"}
    )
    assert response.status_code == 303
    assert (await both.db.fetch_one(comments))["n"] == 1
    assert await current_organization(both) == "acme"


@pytest.mark.parametrize("kind", ["job", "repository", "form"])
async def test_a_resource_of_the_other_organization_links_there(both, kind):
    job = both.samples["other"].finished_job
    path = "/repos/other/shop" if kind == "repository" else f"/jobs/{job}"
    if kind == "form":
        csrf = (await both.member.open("/account")).form("/sign-out").value("csrf")
        page = await both.member.post(f"{path}/again", [("csrf", csrf)])
    else:
        page = await both.member.open(path)
    assert page.status == 404
    assert "This is in the organization other" in page.text
    form = page.form("/account/organization")
    assert (form.value("organization"), form.value("next")) == ("other", path)
    await both.member.send(page, "/account/organization")
    assert (await both.member.open(path)).status == 200


async def test_users_outside_the_organization_learn_nothing(sample_dashboard):
    job = sample_dashboard.samples["other"].finished_job
    unknown_path = f"/jobs/job_{'0' * 26}"
    texts = [
        (await sample_dashboard.member.open(path)).text for path in (f"/jobs/{job}", unknown_path)
    ]
    assert "There is no such job" in texts[0]
    assert texts[0].partition("Request")[0] == texts[1].partition("Request")[0]
    page = await sample_dashboard.member.open("/repos/other/shop")
    assert page.status == 404
    assert not page.has_form("/account/organization")
    assert (await sample_dashboard.member.open(OTHER_PULLS)).status == 404


async def test_the_header_offers_the_other_organization(both):
    page = await both.member.open("/")
    assert any(each.get("data-lazy") == "/account/organizations" for _, each in page.tags)
    part = await both.member.get("/account/organizations", headers={"X-Part": "1"})
    assert "<main" not in part.text
    assert "other" in part.text

    choices = await both.member.open("/account/organizations")
    assert choices.form("/account/organization").value("organization") == "other"
    await both.member.send(choices, "/account/organization")
    assert await current_organization(both) == "other"


async def test_the_header_of_one_organization_has_no_choice(sample_dashboard):
    page = await sample_dashboard.member.open("/")
    assert "Organization: acme" in page.text
    assert "/account/organizations" not in page.links
