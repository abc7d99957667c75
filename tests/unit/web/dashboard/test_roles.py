"""Who may come where: every address of the dashboard, for everybody, with ids of both sides."""

import re

import pytest

from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.memberships import ROLES, allows
from agentjobs.web.dashboard.page_route import PageRoute
from agentjobs.web.dashboard.routes import ROUTES
from tests.support.users import make_passwords_cheap
from tests.unit.web.dashboard.addresses import (
    GETS,
    POSTS,
    PUBLIC_ROUTES,
    SIGNED_IN,
    address_of,
    ask,
    csrf_of,
    ghosts,
    is_about_somebodys,
    named,
    stored,
    with_session_of,
)
from tests.unit.web.dashboard.conftest import opened_house
from tests.unit.web.dashboard.platform_data import answer_as_jira

# What is refused for another reason than who asks: the name of the new repository is taken, and
# the import that is there ended long ago.
REFUSED_ANYWAY = {"POST /repos": 409, "POST /repos/imports/{id}/cancel": 404}


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)
    answer_as_jira(monkeypatch)


@pytest.fixture
async def furnished(house, tmp_path):
    async with opened_house(house, tmp_path, webhooks_allow=["192.0.2.0/24"]) as dashboard:
        yield dashboard


def test_every_address_can_be_made_and_an_unknown_parameter_is_noticed(house):
    things = house[1].things["acme"]
    addresses = [address_of(place, things) for place in ROUTES]
    assert not any("{" in address for address in addresses)
    strange = PageRoute("GET", "/things/{thing_id}", "viewer", ROUTES[-1].handler)
    with pytest.raises(AssertionError, match="thing_id"):
        address_of(strange, things)
    stranger = PageRoute("GET", "/things/{id}", "viewer", ROUTES[-1].handler)
    with pytest.raises(AssertionError, match="whose identifier"):
        address_of(stranger, things)


@pytest.mark.parametrize("place", SIGNED_IN, ids=named)
def test_the_role_of_an_address_is_what_the_guide_says(place):
    path, is_change = place.path, place.method == "POST"
    if path.startswith("/settings/webhooks/delivery-log"):
        expected = "member"
    elif path.startswith(("/settings/api-keys", "/settings/secrets", "/settings/audit-log")):
        expected = "admin"
    elif path.startswith("/settings"):
        expected = "admin" if is_change else "member"
    elif path.startswith("/repos"):
        expected = "admin" if is_change else "viewer"
    elif path == "/jobs/new":
        expected = "member"
    else:
        is_own = path.startswith(("/account", "/sign-out"))
        expected = "member" if is_change and not is_own else "viewer"
    assert place.role == expected


async def test_nobody_is_led_to_the_door_and_changes_nothing(furnished):
    before = await stored(furnished.db)
    for place in SIGNED_IN:
        address = address_of(place, furnished.things["acme"])
        if place.method == "POST":
            answer = await ask(furnished, furnished.nobody, place, address)
            assert answer.status_code == 401, named(place)
            assert "Sign in first" in answer.text
        else:
            answer = await furnished.nobody.get(address)
            assert answer.status_code == 303, named(place)
            assert answer.headers["location"].startswith("/sign-in?next=/"), named(place)
    assert await stored(furnished.db) == before


async def test_who_is_below_the_role_is_refused_and_changes_nothing(furnished):
    before = await stored(furnished.db)
    refused = 0
    for role in ROLES:
        browser = getattr(furnished, role)
        csrf = await csrf_of(browser)
        for place in SIGNED_IN:
            if allows(role, place.role):
                continue
            address = address_of(place, furnished.things["acme"])
            answer = await ask(furnished, browser, place, address, csrf)
            assert answer.status_code == 403, f"{role}: {named(place)}"
            assert f"requires the role {place.role}" in answer.text
            refused += 1
    assert refused > 30
    assert await stored(furnished.db) == before


@pytest.mark.parametrize("role", ROLES)
async def test_pages_open_for_the_role_and_looking_changes_nothing(furnished, role):
    before = await stored(furnished.db)
    browser = getattr(furnished, role)
    for place in GETS:
        if allows(role, place.role):
            address = address_of(place, furnished.things["acme"])
            answer = await ask(furnished, browser, place, address)
            assert answer.status_code in {200, 303}, f"{named(place)}: {answer.text[:500]}"
    assert await stored(furnished.db) == before


@pytest.mark.parametrize(
    ("role", "place"),
    [
        pytest.param(role, place, id=f"{role} {place.path}")
        for place in POSTS
        for role in ROLES
        if allows(role, place.role) and not place.path.endswith("/test")
    ],
)
async def test_a_form_does_what_it_says_for_who_may_send_it(furnished, role, place):
    before = await stored(furnished.db)
    browser = getattr(furnished, role)
    address = address_of(place, with_session_of(furnished.things["acme"], browser))
    answer = await ask(furnished, browser, place, address, await csrf_of(browser))
    if named(place) in REFUSED_ANYWAY:
        assert answer.status_code == REFUSED_ANYWAY[named(place)], answer.text
        return
    assert answer.status_code in {200, 303}, answer.text
    is_idle = place.path in {"/account/organization", "/account/sessions/end-others"}
    # There is no new secret yet.
    is_idle = is_idle or place.path.endswith("/promote")
    assert (await stored(furnished.db) == before) is is_idle


async def test_what_is_anothers_answers_as_what_is_nowhere(furnished):
    """For an administrator of another organization, so that no role stands in the way."""
    theirs, nowhere = furnished.things["acme"], ghosts(furnished.things["acme"])
    browser = furnished.outsider
    csrf = await csrf_of(browser)
    before = await stored(furnished.db)
    for place in filter(is_about_somebodys, SIGNED_IN):
        answers = [
            await ask(furnished, browser, place, address_of(place, things), csrf)
            for things in (theirs, nowhere)
        ]
        assert [each.status_code for each in answers] == [404, 404], named(place)
        texts = [
            _without_names(answer.text, things)
            for answer, things in zip(answers, (theirs, nowhere), strict=True)
        ]
        assert texts[0] == texts[1], named(place)
    assert await stored(furnished.db) == before


async def test_an_own_organization_does_not_lead_to_anothers_repository(furnished):
    browser = furnished.outsider
    for place in ("/other/acme/shop/pulls", "/other/acme/shop/pulls/1", "/repos/acme/shop"):
        assert (await browser.get(place)).status_code == 404
    # Nor does the name of an organization that is not theirs lead to their own repository.
    for organization, status in (("other", 200), ("acme", 404), ("ghost", 404)):
        for rest in ("", "/1"):
            place = f"/{organization}/other/shop/pulls{rest}"
            assert (await browser.get(place)).status_code == status, place


@pytest.mark.parametrize(
    ("place", "field", "value"),
    [
        ("/account/organization", "organization", "acme"),
        ("/jobs", "repo", "acme/shop"),
        ("/settings/webhooks/delivery-log/redeliver-failed", "endpoint", ""),
    ],
)
async def test_a_field_that_names_what_is_anothers_finds_nothing(furnished, place, field, value):
    browser, things = furnished.outsider, furnished.things["acme"]
    before = await stored(furnished.db)
    for each in (value or things.endpoint, "ghost"):
        fields = {"csrf": await csrf_of(browser), "agent": "fixer", "days": "7"}
        answer = await browser.http.post(place, data={**fields, field: each})
        assert answer.status_code in {303, 400, 422}
    assert await stored(furnished.db) == before


async def test_a_form_without_its_token_or_with_anothers_changes_nothing(furnished):
    before = await stored(furnished.db)
    others = await csrf_of(furnished.member)
    for place in POSTS:
        address = address_of(place, furnished.things["acme"])
        for csrf in (None, "", others):
            answer = await ask(furnished, furnished.admin, place, address, csrf)
            assert answer.status_code == 403, named(place)
            assert "nothing was changed" in answer.text
    assert await stored(furnished.db) == before


async def test_open_places_are_open_and_fail_for_nobody(furnished):
    for place in PUBLIC_ROUTES:
        for browser in (furnished.nobody, furnished.viewer):
            answer = await ask(furnished, browser, place, place.path)
            # Who is signed in already is led on from the door.
            led_on = {303} if browser is furnished.viewer else set()
            assert answer.status_code in {200, 400, 401, 404} | led_on, named(place)


async def test_a_key_reads_pull_requests_and_no_other_page(furnished):
    things = furnished.things["acme"]
    key = (await create_key(furnished.db, "acme")).key
    by_key = {"Authorization": f"Bearer {key}", "Accept": "*/*"}
    for place in SIGNED_IN:
        address = address_of(place, things)
        answer = await furnished.nobody.http.request(place.method, address, headers=by_key)
        expected = 200 if place.takes_keys else 401
        assert answer.status_code == expected, named(place)
    assert sum(place.takes_keys for place in SIGNED_IN) == 3


def _without_names(text, things):
    for name in things.names():
        text = text.replace(name, "X")
    text = re.sub(r'(name="csrf" value|data-form)="[^"]*"', "token", text)
    return re.sub("req_[0-9a-f]+", "req", text)
