"""What the public address decides: cookies, whether one may sign in, and how addresses begin."""

import re

import httpx
import pytest

from agentjobs.organizations.sign_in_links import create_link
from tests.unit.web.dashboard.addresses import GETS, POSTS, address_of, describe_route, fields_of
from tests.unit.web.dashboard.browser import Page
from tests.unit.web.dashboard.conftest import open_sample_dashboard
from tests.unit.web.dashboard.event_streams import listen
from tests.unit.web.dashboard.index_data import ADVISORY

HOST = "https://jobs.example"
PREFIX = "/agentjobs"
PLATFORMS = ("https://git.example.org", "https://gitlab.com", "https://jira.example.com")
PUBLISHED = f"https://osv.dev/vulnerability/{ADVISORY}"
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


async def test_with_https_cookies_are_of_this_host_alone(sample_template, tmp_path):
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=HOST) as dashboard,
        browser_at(dashboard) as browser,
    ):
        answer = await signed_in(dashboard, browser)
        (cookie,) = answer.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-agentjobs-session=")
        for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age="):
            assert word in cookie
        assert "domain" not in cookie.lower()
        page = Page(await browser.get("/account"))
        assert page.status == 200
        form = {"csrf": page.form("/sign-out").value("csrf")}
        for origin in ("http://jobs.example", "https://jobs.example.evil", "null"):
            headers = {"Origin": origin}
            answer = await browser.post("/sign-out", data=form, headers=headers)
            assert answer.status_code == 403
        answer = await browser.post("/sign-out", data=form, headers={"Origin": HOST})
        assert answer.status_code == 303
        gone = [each for each in answer.headers.get_list("set-cookie") if "session" in each]
        assert "Max-Age=0" in gone[0]
        assert "Secure" in gone[0]


async def test_a_cookie_of_plain_http_is_not_taken_with_https(sample_template, tmp_path):
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
            answer = await browser.get("/account", headers=headers)
            assert answer.status_code == status


@pytest.mark.parametrize(
    ("public_url", "client"),
    [("http://jobs.example:8080", "127.0.0.1"), ("http://127.0.0.1:8080", "192.0.2.9")],
)
async def test_without_https_nobody_signs_in_from_elsewhere(
    sample_template, tmp_path, public_url, client
):
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=public_url) as dashboard,
        browser_at(dashboard, public_url, client) as browser,
    ):
        row = await dashboard.db.fetch_one("SELECT COUNT(*) AS n FROM sessions")
        answers = [
            await browser.get("/sign-in"),
            await signed_in(dashboard, browser),
            await browser.get("/invitation?token=x"),
            await browser.post("/sign-in", data={"email": "a@b.example", "password": "x"}),
        ]
        for answer in answers:
            assert answer.status_code == 403
            assert "set AGENTJOBS_PUBLIC_URL to its https address" in answer.text
            assert "set-cookie" not in answer.headers
        after = await dashboard.db.fetch_one("SELECT COUNT(*) AS n FROM sessions")
        assert row["n"] == after["n"]


def strange_addresses(page):
    """Those that would lead out of the place where the service is."""
    found = []
    for tag, given in page.tags:
        for name in ADDRESSES:
            address = given.get(name)
            if address is None or address.startswith(("#", f"{PREFIX}/", f"{HOST}{PREFIX}/")):
                continue
            # A pull request's own address was written when it was opened; the whole text of an
            # advisory is where it was published; platforms are elsewhere altogether.
            if not address.startswith(("http://127.0.0.1:8080/acme/", PUBLISHED, *PLATFORMS)):
                found.append(f"<{tag} {name}={address}>")
    return found


@pytest.fixture
async def below(sample_template, tmp_path):
    """The service below a path of a host whose proxy takes the path away."""
    async with (
        open_sample_dashboard(sample_template, tmp_path, public_url=f"{HOST}{PREFIX}") as dashboard,
        browser_at(dashboard) as browser,
    ):
        answer = await signed_in(dashboard, browser)
        assert answer.headers["location"] == f"{PREFIX}/"
        yield dashboard, browser


async def test_below_a_path_every_address_of_every_page_begins_with_it(below):
    dashboard, browser = below
    for place in GETS:
        if place.path.endswith(("/stream", "/log")):
            continue
        answer = await browser.get(address_of(place, dashboard.samples["acme"]))
        if answer.status_code == 303:
            assert answer.headers["location"].startswith(f"{PREFIX}/"), describe_route(place)
            continue
        page = Page(answer)
        assert page.status == 200, describe_route(place)
        assert f"{PREFIX}/static/dashboard.js" in page.html
        assert strange_addresses(page) == [], describe_route(place)
    for place in ("/sign-in", "/nothing", f"/invitation?token={_token(dashboard)}"):
        assert strange_addresses(Page(await browser.get(place))) == [], place


async def test_below_a_path_every_redirect_begins_with_it(below):
    dashboard, browser = below
    csrf = Page(await browser.get("/account")).form("/sign-out").value("csrf")
    redirected = 0
    # Signing out last.
    for place in sorted(POSTS, key=lambda each: each.path == "/sign-out"):
        if place.path.endswith(("/test", "/password", "/remove", "/disconnect", "/end-all")):
            continue
        answer = await browser.post(
            address_of(place, dashboard.samples["acme"]),
            data={**fields_of(place), "csrf": csrf},
            headers={"Origin": HOST},
        )
        if answer.status_code == 303:
            redirected += 1
            assert answer.headers["location"].startswith(f"{PREFIX}/"), describe_route(place)
        else:
            assert strange_addresses(Page(answer)) == [], describe_route(place)
    assert redirected > 15
    answer = await browser.get("/jobs?status=failed")
    assert answer.headers["location"] == f"{PREFIX}/sign-in?next=/jobs%3Fstatus%3Dfailed"


async def test_below_a_path_parts_of_live_pages_begin_with_it(below):
    dashboard, browser = below
    cookies = "; ".join(f"{each.name}={each.value}" for each in browser.cookies.jar)
    assert cookies.startswith("__Host-")
    dashboard.admin.http.cookies.set("__Host-agentjobs-session", cookies.partition("=")[2])
    job = dashboard.samples["acme"].running_job
    for place, events in (("/jobs/stream", 1), (f"/jobs/{job}/stream", 6), ("/repos/stream", 1)):
        heard = await listen(dashboard.app, dashboard.admin, place, events=events)
        assert len(heard.parts()) == events
        for part in heard.parts().values():
            assert strange_addresses(part) == []


async def test_below_a_path_static_files_are_where_the_pages_say(below):
    _, browser = below
    page = Page(await browser.get("/account"))
    assets = re.findall(rf'(?:src|href)="{PREFIX}(/static/[^"]+)"', page.html)
    assert len(assets) >= 6
    for asset in set(assets):
        assert (await browser.get(asset)).status_code == 200


def _token(dashboard):
    return dashboard.samples["acme"].invitation_token
