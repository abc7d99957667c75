"""The public URL decides the cookies, whether sign-in is allowed, and the prefix of links."""

import re

import httpx
import pytest

from agentjobs.organizations.sign_in_links import create_link
from agentjobs.web.dashboard.static_files import static_url
from service.tests.unit.web.dashboard.addresses import (
    GETS,
    POSTS,
    address_of,
    describe_route,
    fields_of,
)
from service.tests.unit.web.dashboard.browser import Page
from service.tests.unit.web.dashboard.conftest import open_sample_dashboard
from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.index_data import ADVISORY
from tests.support.users import write

HOST = "https://jobs.example"
PREFIX = "/agentjobs"
PLATFORMS = ("https://git.example.org", "https://gitlab.com", "https://jira.example.com")
PUBLISHED = f"https://osv.dev/vulnerability/{ADVISORY}"
REFERENCES = ("https://github.test/fix", "https://example.test/", "https://cwe.mitre.org/")
ADDRESSES = ("href", "src", "action", "formaction", "data-live", "data-log", "data-lazy")


def browser_at(dashboard, address=HOST, client="127.0.0.1"):
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(dashboard.app, client=(client, 4321)),
        base_url=address,
        headers={"Accept": "text/html"},
    )


async def signed_in(dashboard, browser, role="admin"):
    row = await dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = :email", email=f"{role}@acme.example"
    )
    token = await create_link(dashboard.db, row["id"])
    return await browser.get(f"/sign-in?token={token}")


async def test_with_https_cookies_are_bound_to_the_host(sample_template, tmp_path):
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=HOST) as dashboard,
        browser_at(dashboard) as browser,
    ):
        response = await signed_in(dashboard, browser)
        (cookie,) = response.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-agentjobs-session=")
        for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age="):
            assert attribute in cookie
        assert "domain" not in cookie.lower()
        page = Page(await browser.get("/account"))
        assert page.status == 200
        form = {"csrf": page.form("/sign-out").value("csrf")}
        for origin in ("http://jobs.example", "https://jobs.example.evil", "null"):
            headers = {"Origin": origin}
            response = await browser.post("/sign-out", data=form, headers=headers)
            assert response.status_code == 403
        response = await browser.post("/sign-out", data=form, headers={"Origin": HOST})
        assert response.status_code == 303
        deleted = [
            cookie for cookie in response.headers.get_list("set-cookie") if "session" in cookie
        ]
        assert "Max-Age=0" in deleted[0]
        assert "Secure" in deleted[0]


async def test_a_cookie_set_over_http_is_not_accepted_with_https(sample_template, tmp_path):
    token = sample_template[1].tokens["acme", "admin"]
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=HOST) as dashboard,
        browser_at(dashboard) as browser,
    ):
        for name, status in (
            ("agentjobs-session-8080", 303),
            ("agentjobs-session", 303),
            ("__Host-agentjobs-session", 200),
        ):
            headers = {"Cookie": f"{name}={token}"}
            response = await browser.get("/account", headers=headers)
            assert response.status_code == status


@pytest.mark.parametrize(
    ("public_url", "client"),
    [("http://jobs.example:8080", "127.0.0.1"), ("http://127.0.0.1:8080", "192.0.2.9")],
)
async def test_without_https_remote_sign_in_is_rejected(
    sample_template, tmp_path, public_url, client
):
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=public_url) as dashboard,
        browser_at(dashboard, public_url, client) as browser,
    ):
        row = await dashboard.db.fetch_one("SELECT COUNT(*) AS n FROM sessions")
        responses = [
            await browser.get("/sign-in"),
            await signed_in(dashboard, browser),
            await browser.get("/invitation?token=x"),
            await browser.post("/sign-in", data={"email": "a@b.example", "password": "x"}),
        ]
        for response in responses:
            assert response.status_code == 403
            assert "set AGENTJOBS_PUBLIC_URL to its https address" in response.text
            assert "set-cookie" not in response.headers
        after = await dashboard.db.fetch_one("SELECT COUNT(*) AS n FROM sessions")
        assert row["n"] == after["n"]


def links_outside_prefix(page):
    """Links that leave the path prefix of the service."""
    links = []
    for tag, attributes in page.tags:
        for name in ADDRESSES:
            address = attributes.get(name)
            if address is None or address.startswith(("#", f"{PREFIX}/", f"{HOST}{PREFIX}/")):
                continue
            # The URL of a pull request is stored when it is opened; advisories and platforms have
            # external URLs.
            if not address.startswith(
                ("http://127.0.0.1:8080/acme/", PUBLISHED, *REFERENCES, *PLATFORMS)
            ):
                links.append(f"<{tag} {name}={address}>")
    return links


@pytest.fixture
async def below(sample_template, tmp_path):
    """The service under a path prefix that the proxy removes."""
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=f"{HOST}{PREFIX}") as dashboard,
        browser_at(dashboard) as browser,
    ):
        await write(dashboard.db, "UPDATE users SET is_operator = true")
        response = await signed_in(dashboard, browser)
        assert response.headers["location"] == f"{PREFIX}/"
        yield dashboard, browser


async def test_under_a_path_prefix_every_link_has_the_prefix(below):
    dashboard, browser = below
    for route in GETS:
        if route.path.endswith(("/stream", "/log", "/artifacts/{name}")):
            continue
        response = await browser.get(address_of(route, dashboard.samples["acme"]))
        if response.status_code == 303:
            assert response.headers["location"].startswith(f"{PREFIX}/"), describe_route(route)
            continue
        page = Page(response)
        assert page.status == 200, describe_route(route)
        assert PREFIX + static_url("dashboard.js") in page.html
        assert links_outside_prefix(page) == [], describe_route(route)
    for route in ("/sign-in", "/nothing", f"/invitation?token={_token(dashboard)}"):
        assert links_outside_prefix(Page(await browser.get(route))) == [], route


async def test_under_a_path_prefix_every_redirect_has_the_prefix(below):
    dashboard, browser = below
    csrf = Page(await browser.get("/account")).form("/sign-out").value("csrf")
    redirected = 0
    # Sign-out comes last.
    for route in sorted(POSTS, key=lambda route: route.path == "/sign-out"):
        if route.path.endswith(("/test", "/password", "/remove", "/disconnect", "/end-all")):
            continue
        response = await browser.post(
            address_of(route, dashboard.samples["acme"]),
            data={**fields_of(route), "csrf": csrf},
            headers={"Origin": HOST},
        )
        if response.status_code == 303:
            redirected += 1
            assert response.headers["location"].startswith(f"{PREFIX}/"), describe_route(route)
        else:
            assert links_outside_prefix(Page(response)) == [], describe_route(route)
    assert redirected > 15
    response = await browser.get("/jobs?status=failed")
    assert response.headers["location"] == f"{PREFIX}/sign-in?next=/jobs%3Fstatus%3Dfailed"


async def test_under_a_path_prefix_links_in_live_pages_have_the_prefix(below):
    dashboard, browser = below
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)
    assert cookies.startswith("__Host-")
    dashboard.admin.http.cookies.set("__Host-agentjobs-session", cookies.partition("=")[2])
    job = dashboard.samples["acme"].running_job
    for path, events in (("/jobs/stream", 1), (f"/jobs/{job}/stream", 9), ("/repos/stream", 1)):
        stream = await listen(dashboard.app, dashboard.admin, path, events=events)
        assert len(stream.parts()) == events
        for part in stream.parts().values():
            assert links_outside_prefix(part) == []


async def test_under_a_path_prefix_static_files_are_served(below):
    _, browser = below
    page = Page(await browser.get("/account"))
    assets = re.findall(rf'(?:src|href)="{PREFIX}(/static/[^"]+)"', page.html)
    assert len(assets) >= 6
    for asset in set(assets):
        assert (await browser.get(asset)).status_code == 200
    assert (await browser.get("/static/unknown.js")).status_code == 404


def _token(dashboard):
    return dashboard.samples["acme"].invitation_token
