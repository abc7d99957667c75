"""What is refused keeps the way to everywhere else, and speaks to people, not to programs."""

import pytest

from agentjobs.store.database import StoreUnavailable


@pytest.mark.parametrize("place", ["/nothing", "/jobs/job_0", "/repos/acme/nothing"])
async def test_who_is_signed_in_keeps_navigation_and_account(dashboard, place):
    page = await dashboard.member.open(place)
    assert page.status == 404
    assert {"/jobs", "/repos", "/settings", "/account"} <= set(page.links)
    assert page.has_form("/sign-out")
    viewers = await dashboard.viewer.open(place)
    assert "/settings" not in viewers.links
    strangers = await dashboard.anonymous.open("/nothing")
    assert "/jobs" not in strangers.links
    assert not strangers.has_form("/sign-out")


async def test_a_refused_role_and_a_refused_form_keep_them_too(dashboard):
    page = await dashboard.viewer.open("/settings/api-keys")
    assert page.status == 403
    assert "/jobs" in page.links
    page = await dashboard.viewer.post("/account/name", [("csrf", "x"), ("name", "Ada")])
    assert page.status == 403
    assert page.has_form("/sign-out")


async def test_a_store_that_is_away_is_no_reason_to_fail_twice(dashboard, monkeypatch):
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(dashboard.db, "fetch_one", away)
    page = await dashboard.member.open("/jobs")
    assert page.status == 503
    assert "is temporarily unavailable" in page.text
    page = await dashboard.member.open("/nothing")
    assert page.status == 404
    assert not page.has_form("/sign-out")


async def test_an_address_that_is_none_is_told_in_words_for_people(dashboard):
    for browser in (dashboard.anonymous, dashboard.admin):
        page = await browser.open("/nothing")
        assert "There is no page at this address" in page.text
        assert "endpoints" not in page.text
    answer = await dashboard.admin.get("/nothing", headers={"Accept": "application/json"})
    assert "/v1/docs lists all endpoints" in answer.json()["error"]["message"]
