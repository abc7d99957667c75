"""People in two organizations: addresses of the one, opened while they stand in the other."""

import pytest

from agentjobs.organizations.memberships import add_member
from agentjobs.web.access_log import AccessLog
from tests.support.users import write

OTHERS = "/other/other/shop/pulls"


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


async def stands_in(sample_dashboard):
    page = await sample_dashboard.member.open("/account")
    return "other" if "viewer of other" in page.text else "acme"


async def test_a_page_of_the_other_organization_leads_there_and_its_links_work(both):
    page = await both.member.open(OTHERS)
    assert page.status == 200
    assert await stands_in(both) == "other"
    pull = await both.member.open(f"{OTHERS}/1")
    job = f"/jobs/{both.samples['other'].finished_job}"
    assert job in pull.links
    for place in (job, "/repos/other/shop"):
        assert (await both.member.open(place)).status == 200
    await both.member.open("/acme/acme/shop/pulls")
    assert await stands_in(both) == "acme"


async def test_the_plan_is_that_of_the_organization_one_came_to(both, monkeypatch):
    await write(both.db, "UPDATE organizations SET plan = 'free' WHERE name = 'other'")
    callers = []
    noted = AccessLog.write

    def write_down(log, scope, status, seconds):
        callers.append(scope["agentjobs.caller"])
        noted(log, scope, status, seconds)

    monkeypatch.setattr(AccessLog, "write", write_down)
    await both.member.get(OTHERS)
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
async def test_what_a_page_fetches_by_itself_does_not_lead_anywhere(both, headers):
    assert (await both.member.get(OTHERS, headers=headers)).status_code == 200
    assert await stands_in(both) == "acme"


async def test_a_form_acts_where_its_address_says_by_the_role_there(both):
    page = await both.member.open("/account")
    fields = [("csrf", page.form("/sign-out").value("csrf")), ("body", "Hello")]
    refused = await both.member.post(f"{OTHERS}/1/comments", fields)
    assert refused.status == 403
    assert "your role in other is viewer" in refused.text
    await write(both.db, "UPDATE memberships SET role = 'member' WHERE role = 'viewer'")
    comments = "SELECT COUNT(*) AS n FROM pull_comments WHERE body = 'Hello'"
    assert (await both.db.fetch_one(comments))["n"] == 0
    answer = await both.member.http.post(
        f"{OTHERS}/1/comments", data=dict(fields), headers={"Origin": "http://127.0.0.1:8080"}
    )
    assert answer.status_code == 303
    assert (await both.db.fetch_one(comments))["n"] == 1
    assert await stands_in(both) == "acme"


@pytest.mark.parametrize("what", ["job", "repository", "form"])
async def test_what_is_in_the_other_organization_says_so_and_leads_there(both, what):
    job = both.samples["other"].finished_job
    place = "/repos/other/shop" if what == "repository" else f"/jobs/{job}"
    if what == "form":
        csrf = (await both.member.open("/account")).form("/sign-out").value("csrf")
        page = await both.member.post(f"{place}/again", [("csrf", csrf)])
    else:
        page = await both.member.open(place)
    assert page.status == 404
    assert "This is in the organization other" in page.text
    form = page.form("/account/organization")
    assert (form.value("organization"), form.value("next")) == ("other", place)
    await both.member.send(page, "/account/organization")
    assert (await both.member.open(place)).status == 200


async def test_who_is_not_in_it_learns_nothing(sample_dashboard):
    job = sample_dashboard.samples["other"].finished_job
    nowhere = f"/jobs/job_{'0' * 26}"
    texts = [
        (await sample_dashboard.member.open(place)).text for place in (f"/jobs/{job}", nowhere)
    ]
    assert "There is no such job" in texts[0]
    assert texts[0].partition("Request")[0] == texts[1].partition("Request")[0]
    page = await sample_dashboard.member.open("/repos/other/shop")
    assert page.status == 404
    assert not page.has_form("/account/organization")
    assert (await sample_dashboard.member.open(OTHERS)).status == 404
