"""What is refused is a page for people and the one error shape for programs."""

import pytest

JSON = {"Accept": "application/json"}


@pytest.mark.parametrize("place", ["/nothing", "/settings/nothing", "/a/b/c/d/e/f", "/acme/x/y/z"])
async def test_an_address_that_is_none_is_a_page_for_people(dashboard, place):
    for browser in (dashboard.anonymous, dashboard.admin):
        page = await browser.open(place)
        assert page.status == 404
        assert "Not found" in page.text
        assert "/" in page.links
        assert page.answer.headers["x-request-id"] in page.text
        assert "script-src 'self'" in page.answer.headers["content-security-policy"]


async def test_a_program_gets_the_one_error_shape(sample_dashboard):
    for place in ("/nothing", "/repos/acme/nothing", "/jobs/job_0"):
        answer = await sample_dashboard.viewer.get(place, headers=JSON)
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "request_id"}
    answer = await sample_dashboard.viewer.get("/settings/api-keys", headers=JSON)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "role_required"


async def test_the_api_answers_a_browser_as_it_answers_everybody(dashboard):
    answer = await dashboard.admin.get("/v1/nothing")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"


async def test_a_wrong_method_says_which_there_are(dashboard):
    answer = await dashboard.admin.http.put("/account", headers=JSON)
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    answer = await dashboard.admin.get("/sign-out")
    assert answer.status_code == 405


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"csrf=x", "text/plain", 415),
        (b"csrf=%ff", "application/x-www-form-urlencoded", 400),
        (b"csrf=%00", "application/x-www-form-urlencoded", 400),
        (b"\xff", "application/x-www-form-urlencoded", 400),
        (b"a=b&" * 300, "application/x-www-form-urlencoded", 400),
        (b"csrf=" + b"x" * 600_000, "application/x-www-form-urlencoded", 413),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(dashboard, body, media_type, status):
    answer = await dashboard.admin.http.post(
        "/account/name", content=body, headers={"Content-Type": media_type}
    )
    assert answer.status_code == status
    assert "<h1>" in answer.text


async def test_a_service_that_stops_takes_no_more_forms(dashboard):
    page = await dashboard.admin.open("/account")
    dashboard.context.stopping.set()
    refused = await dashboard.admin.send(page, "/account/name", name="Ada")
    assert refused.status == 503
    assert refused.answer.headers["retry-after"]
    assert (await dashboard.admin.open("/account")).status == 200


async def test_pages_keep_out_of_caches_and_frames(dashboard):
    for browser in (dashboard.anonymous, dashboard.viewer):
        headers = (await browser.get("/sign-in")).headers
        assert "no-store" in headers["cache-control"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


async def test_a_head_request_is_answered_without_a_body(dashboard):
    answer = await dashboard.viewer.http.head("/jobs")
    assert answer.status_code == 200
    assert (await dashboard.viewer.http.head("/jobs/stream")).status_code == 200
