"""Errors are HTML pages for browsers and the JSON error shape for other clients."""

import pytest

JSON = {"Accept": "application/json"}


@pytest.mark.parametrize("path", ["/nothing", "/settings/nothing", "/a/b/c/d/e/f", "/acme/x/y/z"])
async def test_an_unknown_url_gets_an_html_error_page(dashboard, path):
    for browser in (dashboard.anonymous, dashboard.admin):
        page = await browser.open(path)
        assert page.status == 404
        assert "Not found" in page.text
        assert "/" in page.links
        assert page.response.headers["x-request-id"] in page.text
        assert "script-src 'self'" in page.response.headers["content-security-policy"]


async def test_an_api_client_gets_the_json_error_shape(sample_dashboard):
    for path in ("/nothing", "/repos/acme/nothing", "/jobs/job_0"):
        response = await sample_dashboard.viewer.get(path, headers=JSON)
        assert response.status_code == 404
        error = response.json()["error"]
        assert set(error) == {"code", "message", "request_id"}
    response = await sample_dashboard.viewer.get("/settings/api-keys", headers=JSON)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "role_required"


async def test_the_api_responds_to_browsers_with_json(dashboard):
    response = await dashboard.admin.get("/v1/nothing")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/json"


async def test_a_wrong_method_lists_the_allowed_methods(dashboard):
    response = await dashboard.admin.http.put("/account", headers=JSON)
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]
    response = await dashboard.admin.get("/sign-out")
    assert response.status_code == 405


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
async def test_a_malformed_form_is_rejected(dashboard, body, media_type, status):
    response = await dashboard.admin.http.post(
        "/account/name", content=body, headers={"Content-Type": media_type}
    )
    assert response.status_code == status
    assert "<h1>" in response.text


async def test_a_stopping_service_rejects_forms(dashboard):
    page = await dashboard.admin.open("/account")
    dashboard.context.stopping.set()
    error_page = await dashboard.admin.send(page, "/account/name", name="Ada")
    assert error_page.status == 503
    assert error_page.response.headers["retry-after"]
    assert (await dashboard.admin.open("/account")).status == 200


async def test_pages_cannot_be_cached_or_framed(dashboard):
    for browser in (dashboard.anonymous, dashboard.viewer):
        headers = (await browser.get("/sign-in")).headers
        assert "no-store" in headers["cache-control"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


async def test_a_head_request_gets_no_body(dashboard):
    response = await dashboard.viewer.http.head("/jobs")
    assert response.status_code == 200
    assert (await dashboard.viewer.http.head("/jobs/stream")).status_code == 200
