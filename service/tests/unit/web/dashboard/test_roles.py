"""Access control: every route of the dashboard, for every role, with IDs of both organizations."""

import re

import pytest

from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.memberships import ROLES, allows
from agentjobs.web.dashboard.page_route import PageRoute
from agentjobs.web.dashboard.routes import ROUTES
from agentjobs_worker.agents.catalog import Catalog
from service.tests.unit.web.dashboard.addresses import (
    GETS,
    POSTS,
    PUBLIC_ROUTES,
    SIGNED_IN,
    address_of,
    csrf_of,
    describe_route,
    names_resource,
    send_request,
    store_contents,
    unknown_ids,
    with_session_of,
)
from service.tests.unit.web.dashboard.conftest import open_sample_dashboard
from service.tests.unit.web.dashboard.platform_data import use_jira_double
from tests.support.jobs import an_agent
from tests.support.users import make_passwords_cheap, write

# Rejected for reasons other than the role: the name of the new repository is taken, and the
# import has already ended.
REFUSED_ANYWAY = {
    "POST /repos": 409,
    "POST /repos/imports/{id}/cancel": 404,
    # The sample is not connected with an App.
    "POST /settings/platforms/{id}/installation": 400,
    # The sample has no signing key.
    "POST /settings/platforms/{id}/signed-token": 409,
    # The worker is alive.
    "POST /operator/workers/{id}/remove": 400,
    # The platform cannot reach the test's address.
    "POST /settings/platforms/{id}/webhooks": 400,
    # The form names no comment.
    "POST /{org}/{full_name:path}/pulls/{number}/comments/reply": 400,
    "POST /{org}/{full_name:path}/pulls/{number}/comments/resolve": 400,
    "POST /{org}/{full_name:path}/pulls/{number}/follow-up": 400,
    # The sample has no conflicts.
    "POST /{org}/{full_name:path}/pulls/{number}/resolve-conflicts": 409,
}


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)
    use_jira_double(monkeypatch)


@pytest.fixture
async def sample_dashboard(sample_template, tmp_path):
    async with open_sample_dashboard(
        sample_template, tmp_path, webhooks_allow=["192.0.2.0/24"]
    ) as dashboard:
        dashboard.harness.context.catalog = Catalog([an_agent("fixer"), an_agent("cve-fixer")])
        yield dashboard


def test_every_route_has_a_sample_url_and_unknown_parameters_fail(sample_template):
    samples = sample_template[1].samples["acme"]
    addresses = [address_of(route, samples) for route in ROUTES]
    assert not any("{" in address for address in addresses)
    new_route = PageRoute("GET", "/things/{thing_id}", "viewer", ROUTES[-1].handler)
    with pytest.raises(AssertionError, match="thing_id"):
        address_of(new_route, samples)
    unknown_route = PageRoute("GET", "/things/{id}", "viewer", ROUTES[-1].handler)
    with pytest.raises(AssertionError, match="add the prefix to _IDS"):
        address_of(unknown_route, samples)


def test_the_role_of_each_route_matches_the_guide():
    for route in SIGNED_IN:
        is_for_operators = route.path.startswith(("/operator", "/settings/workers"))
        role = "operator" if is_for_operators else role_in_the_guide(route)
        assert route.role == role, describe_route(route)


def role_in_the_guide(route):
    path, is_change = route.path, route.method == "POST"
    if path.startswith("/settings/webhooks/delivery-log"):
        return "member"
    admin_pages = ("api-keys", "secrets", "audit-log")
    if path.startswith(tuple(f"/settings/{page}" for page in admin_pages)):
        return "admin"
    if path.startswith("/settings"):
        return "admin" if is_change else "member"
    if path.startswith("/repos"):
        return "admin" if is_change else "viewer"
    if path == "/jobs/new" or path.endswith("/dismiss"):
        return "member"
    is_own = path.startswith(("/account", "/sign-out")) or path.endswith("/viewed")
    return "member" if is_change and not is_own else "viewer"


async def test_anonymous_requests_are_sent_to_sign_in_and_change_nothing(sample_dashboard):
    before = await store_contents(sample_dashboard.db)
    for route in SIGNED_IN:
        address = address_of(route, sample_dashboard.samples["acme"])
        if route.method == "POST":
            response = await send_request(
                sample_dashboard, sample_dashboard.anonymous, route, address
            )
            assert response.status_code == 401, describe_route(route)
            assert "You are not signed in" in response.text
        else:
            response = await sample_dashboard.anonymous.get(address)
            assert response.status_code == 303, describe_route(route)
            assert response.headers["location"].startswith("/sign-in?next=/"), describe_route(route)
    assert await store_contents(sample_dashboard.db) == before


async def test_users_below_the_role_are_rejected_and_change_nothing(sample_dashboard):
    before = await store_contents(sample_dashboard.db)
    refused_count = 0
    for role in ROLES:
        browser = getattr(sample_dashboard, role)
        csrf = await csrf_of(browser)
        for route in SIGNED_IN:
            if allows(role, route.role):
                continue
            address = address_of(route, sample_dashboard.samples["acme"])
            response = await send_request(sample_dashboard, browser, route, address, csrf)
            # Pages for operators do not exist for others.
            is_hidden = route.role == "operator"
            assert response.status_code == (404 if is_hidden else 403), describe_route(route)
            assert is_hidden or f"requires the role {route.role}" in response.text
            refused_count += 1
    assert refused_count > 30
    assert await store_contents(sample_dashboard.db) == before


@pytest.mark.parametrize("role", ROLES)
async def test_pages_open_for_their_role_and_reading_changes_nothing(sample_dashboard, role):
    before = await store_contents(sample_dashboard.db)
    browser = getattr(sample_dashboard, role)
    for route in GETS:
        if allows(role, route.role):
            address = address_of(route, sample_dashboard.samples["acme"])
            response = await send_request(sample_dashboard, browser, route, address)
            assert response.status_code in {200, 303}, (
                f"{describe_route(route)}: {response.text[:500]}"
            )
    assert await store_contents(sample_dashboard.db) == before


@pytest.mark.parametrize(
    "route", [route for route in POSTS if not route.path.endswith("/test")], ids=describe_route
)
async def test_a_form_is_accepted_from_the_lowest_permitted_role(sample_dashboard, route):
    if route.role == "operator":
        await write(sample_dashboard.db, "UPDATE users SET is_operator = true")
    before = await store_contents(sample_dashboard.db)
    browser = getattr(sample_dashboard, "viewer" if route.role == "operator" else route.role)
    address = address_of(route, with_session_of(sample_dashboard.samples["acme"], browser))
    response = await send_request(sample_dashboard, browser, route, address, await csrf_of(browser))
    if describe_route(route) in REFUSED_ANYWAY:
        assert response.status_code == REFUSED_ANYWAY[describe_route(route)], response.text
        return
    assert response.status_code in {200, 303}, response.text
    # Nothing else to end, and nothing selected.
    idle = {"/account/organization", "/account/sessions/end-others", "/jobs/selected"}
    is_idle = route.path in idle or route.path.endswith("/redeliver-selected")
    # Nothing is dismissed or paused, and no secret was rotated yet.
    is_idle = is_idle or route.path.endswith(("/reopen", "/promote", "/resume"))
    assert (await store_contents(sample_dashboard.db) == before) is is_idle


async def test_resources_of_another_organization_look_nonexistent(sample_dashboard):
    """The user is an administrator of another organization, so that the role is sufficient."""
    other_samples, unknown_samples = (
        sample_dashboard.samples["acme"],
        unknown_ids(sample_dashboard.samples["acme"]),
    )
    browser = sample_dashboard.outsider
    csrf = await csrf_of(browser)
    before = await store_contents(sample_dashboard.db)
    for route in filter(names_resource, SIGNED_IN):
        responses = [
            await send_request(sample_dashboard, browser, route, address_of(route, samples), csrf)
            for samples in (other_samples, unknown_samples)
        ]
        assert [response.status_code for response in responses] == [404, 404], describe_route(route)
        texts = [
            _without_names(response.text, samples)
            for response, samples in zip(responses, (other_samples, unknown_samples), strict=True)
        ]
        assert texts[0] == texts[1], describe_route(route)
    assert await store_contents(sample_dashboard.db) == before


async def test_the_users_organization_gives_no_access_to_anothers_repository(sample_dashboard):
    browser = sample_dashboard.outsider
    for route in ("/other/acme/shop/pulls", "/other/acme/shop/pulls/1", "/repos/acme/shop"):
        assert (await browser.get(route)).status_code == 404
    # Another organization in the URL gives no access to the user's own repository either.
    for organization, status in (("other", 200), ("acme", 404), ("ghost", 404)):
        for rest in ("", "/1"):
            route = f"/{organization}/other/shop/pulls{rest}"
            assert (await browser.get(route)).status_code == status, route


@pytest.mark.parametrize(
    ("route", "field", "value"),
    [
        ("/account/organization", "organization", "acme"),
        ("/jobs", "repo", "acme/shop"),
        ("/settings/webhooks/delivery-log/redeliver-failed", "endpoint", ""),
    ],
)
async def test_a_form_field_cannot_name_a_resource_of_another_organization(
    sample_dashboard, route, field, value
):
    browser, samples = sample_dashboard.outsider, sample_dashboard.samples["acme"]
    before = await store_contents(sample_dashboard.db)
    for submitted in (value or samples.endpoint, "ghost"):
        fields = {"csrf": await csrf_of(browser), "agent": "fixer", "days": "7"}
        response = await browser.http.post(route, data={**fields, field: submitted})
        assert response.status_code in {303, 400, 422}
    assert await store_contents(sample_dashboard.db) == before


async def test_a_form_with_a_missing_or_foreign_token_changes_nothing(sample_dashboard):
    before = await store_contents(sample_dashboard.db)
    others = await csrf_of(sample_dashboard.member)
    for route in POSTS:
        address = address_of(route, sample_dashboard.samples["acme"])
        for csrf in (None, "", others):
            response = await send_request(
                sample_dashboard, sample_dashboard.admin, route, address, csrf
            )
            assert response.status_code == 403, describe_route(route)
            assert "nothing was changed" in response.text
    assert await store_contents(sample_dashboard.db) == before


async def test_public_routes_work_for_everyone(sample_dashboard):
    for route in PUBLIC_ROUTES:
        for browser in (sample_dashboard.anonymous, sample_dashboard.viewer):
            response = await send_request(sample_dashboard, browser, route, route.path)
            # Signed-in users are redirected from the sign-in page.
            redirects = {303} if browser is sample_dashboard.viewer else set()
            assert response.status_code in {200, 400, 401, 404} | redirects, describe_route(route)


async def test_an_api_key_opens_pull_request_pages_only(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    key = (await create_key(sample_dashboard.db, "acme")).key
    by_key = {"Authorization": f"Bearer {key}", "Accept": "*/*"}
    for route in SIGNED_IN:
        address = address_of(route, samples)
        response = await sample_dashboard.anonymous.http.request(
            route.method, address, headers=by_key
        )
        expected = 200 if route.takes_keys else 401
        assert response.status_code == expected, describe_route(route)
    assert sum(route.takes_keys for route in SIGNED_IN) == 5


def _without_names(text, samples):
    for name in samples.names():
        text = text.replace(name, "X")
    text = re.sub(r'(name="csrf" value|data-form)="[^"]*"', "token", text)
    return re.sub("req_[0-9a-f]+", "req", text)
