"""Error pages keep the navigation, and their messages are written for users."""

import pytest

from agentjobs.store.database import StoreUnavailable


@pytest.mark.parametrize("path", ["/nothing", "/jobs/job_0", "/repos/acme/nothing"])
async def test_error_pages_keep_the_navigation_of_signed_in_users(dashboard, path):
    page = await dashboard.member.open(path)
    assert page.status == 404
    assert {"/jobs", "/repos", "/settings", "/account"} <= set(page.links)
    assert page.has_form("/sign-out")
    viewers = await dashboard.viewer.open(path)
    assert "/settings" not in viewers.links
    anonymous_page = await dashboard.anonymous.open("/nothing")
    assert "/jobs" not in anonymous_page.links
    assert not anonymous_page.has_form("/sign-out")


async def test_forbidden_pages_and_forms_keep_the_navigation(dashboard):
    page = await dashboard.viewer.open("/settings/api-keys")
    assert page.status == 403
    assert "/jobs" in page.links
    page = await dashboard.viewer.post("/account/name", [("csrf", "x"), ("name", "Ada")])
    assert page.status == 403
    assert page.has_form("/sign-out")


async def test_an_unreachable_store_does_not_break_the_error_page(dashboard, monkeypatch):
    async def raise_unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(dashboard.db, "fetch_one", raise_unavailable)
    page = await dashboard.member.open("/jobs?q=price")
    assert page.status == 503
    assert "is temporarily unavailable" in page.text
    # To try again.
    assert "/jobs?q=price" in page.links
    page = await dashboard.member.open("/nothing")
    assert page.status == 404
    assert not page.has_form("/sign-out")


async def test_the_message_for_an_unknown_url_depends_on_the_client(dashboard):
    for browser in (dashboard.anonymous, dashboard.admin):
        page = await browser.open("/nothing")
        assert "There is no page at this address" in page.text
        assert "endpoints" not in page.text
    response = await dashboard.admin.get("/nothing", headers={"Accept": "application/json"})
    assert "/v1/docs lists all endpoints" in response.json()["error"]["message"]


async def test_a_text_that_was_written_before_the_session_ended_is_shown_again(dashboard):
    fields = [("csrf", "x"), ("prompt", "Explain <b>the prices"), ("private_key", "secret")]
    sent_from = {"Referer": "http://127.0.0.1:8080/jobs/new?repo=acme/shop"}
    page = await dashboard.anonymous.post("/jobs", fields, **sent_from)
    assert page.status == 401
    assert "/sign-in?next=/jobs/new" in page.links
    assert "Explain <b>the prices" in page.text
    assert "secret" not in page.html
    of_another_session = await dashboard.member.post("/jobs", fields)
    assert of_another_session.status == 403
    assert "Explain <b>the prices" in of_another_session.text


async def test_a_text_is_shown_again_if_the_store_is_unreachable(dashboard, monkeypatch):
    page = await dashboard.member.open("/jobs/new")

    async def raise_unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(dashboard.db, "fetch_one", raise_unavailable)
    csrf = page.form("/sign-out").value("csrf")
    page = await dashboard.member.post("/jobs", [("csrf", csrf), ("prompt", "Explain the prices")])
    assert page.status == 503
    assert "Explain the prices" in page.text
