"""Forms that add something are behind a button, and stay open if what was entered is rejected."""

import pytest

from service.tests.unit.web.dashboard.browser import Page
from tests.support.users import write

# The page, the action of its form and what the form rejects.
FORMS = [
    ("/settings/api-keys", "/settings/api-keys", {"name": ""}),
    ("/settings/webhooks", "/settings/webhooks", {"url": "ftp://example.com"}),
    ("/settings/platforms", "/settings/platforms", {"url": "ftp://example.com", "token": "t"}),
    ("/settings/trackers", "/settings/trackers/jira", {"url": "ftp://example.com", "token": "t"}),
    ("/settings/secrets", "/settings/secrets", {"name": "A", "value": ""}),
    ("/settings/secrets/environments", "/settings/secrets/environments", {"name": "A"}),
    ("/settings/members", "/settings/members/invitations", {"email": "nobody"}),
    ("/repos", "/repos", {"address": "ftp://example.com"}),
]


def details_of(page: Page, id: str) -> dict[str, str | None]:
    return next(
        attributes
        for tag, attributes in page.tags
        if (tag, attributes.get("id")) == ("details", id)
    )


def form_is_open(page: Page) -> bool:
    return "open" in details_of(page, "add")


@pytest.mark.parametrize(("path", "action", "rejected"), FORMS)
async def test_a_rejected_form_stays_open_below_its_button(dashboard, path, action, rejected):
    page = await dashboard.admin.open(path)
    assert not form_is_open(page)
    page = await dashboard.admin.send(page, action, **rejected)
    assert page.status >= 400
    assert form_is_open(page)
    assert page.html.count('id="problem"') == 1


@pytest.mark.parametrize(
    "path", ["/settings/webhooks", "/settings/platforms", "/settings/trackers"]
)
async def test_only_admins_have_the_form(dashboard, path):
    assert 'id="add"' not in (await dashboard.member.open(path)).html


async def test_a_problem_of_another_form_leaves_the_form_closed(sample_dashboard):
    admin = sample_dashboard.admin
    fields = [("csrf", (await admin.open("/account")).form("/sign-out").value("csrf"))]
    page = await admin.post("/settings/secrets/remove", [*fields, ("name", "GONE")])
    assert "Nothing was removed." in page.text
    assert not form_is_open(page)


async def test_replacing_a_secret_opens_the_form_with_its_name(sample_dashboard):
    page = await sample_dashboard.admin.open("/settings/secrets")
    (link,) = {link for link in page.links if "?name=" in link and link.endswith("#add")}
    page = await sample_dashboard.admin.open(link)
    assert form_is_open(page)
    assert page.form("/settings/secrets").value("name")


async def test_a_rejected_token_opens_the_menu_of_its_tracker(sample_dashboard):
    admin, tracker = sample_dashboard.admin, sample_dashboard.samples["acme"].tracker
    await write(sample_dashboard.db, "UPDATE trackers SET kind = 'jira' WHERE id = :id", id=tracker)
    page = await admin.open("/settings/trackers")
    page = await admin.send(page, f"/{tracker}/token", token="")
    assert "open" in details_of(page, f"menu-{tracker}")
    assert not form_is_open(page)
