"""Invitations, sign-in and removal of members."""

import re

from playwright.async_api import Page, expect

from tests.browser.conftest import OpenPage, join
from tests.browser.service import BrowserTestService
from tests.support.openid_provider import ADA

MEMBER = "linus@example.com"


async def test_role_changes_and_removal_of_a_member_take_effect_immediately(
    admin: Page, open_page: OpenPage, service: BrowserTestService
) -> None:
    await admin.goto("/settings/members#add")
    await admin.get_by_label("Email address").fill(MEMBER)
    await admin.get_by_label("Role", exact=True).select_option("member")
    await admin.get_by_role("button", name="Create invitation link").click()
    link = await admin.get_by_label("Invitation link").inner_text()

    # The browser logs refused streams, which this test causes.
    other = await open_page(expected_errors=("EventSource", "/stream", "403", "401"))
    await other.goto(link)
    await join(other, "Linus")
    await expect(other.get_by_role("navigation", name="Main")).to_contain_text("Settings")

    await admin.goto("/settings/members")
    row = admin.get_by_role("row").filter(has_text=MEMBER)
    # With arrow keys, the roles between two are only passed.
    await row.get_by_label("Role of").focus()
    await admin.keyboard.press("ArrowUp")
    await expect(row.get_by_label("Role of")).to_have_value("viewer")
    await row.get_by_role("button", name="Change").click()
    await expect(admin.get_by_role("main").get_by_role("status")).to_be_visible()
    await other.get_by_role("link", name="Settings").click()
    await expect(other.get_by_role("heading", level=1)).to_have_text("Not allowed")

    async with other.expect_response(re.compile("/repos/stream")) as streaming:
        await other.goto("/repos")
    stream = await streaming.value
    await row.get_by_label("Actions: ").click()
    await row.get_by_text("Remove…").click()
    await row.get_by_role("button", name="Remove", exact=True).click()
    await expect(admin.get_by_role("row").filter(has_text=MEMBER)).to_have_count(0)
    await stream.finished()
    await other.get_by_role("link", name="Jobs", exact=True).click()
    await expect(other).to_have_url(re.compile("/sign-in"))


async def test_a_user_signs_in_with_the_organizations_provider(
    open_page: OpenPage, service: BrowserTestService
) -> None:
    page = await open_page(
        origins=(service.provider.issuer,), expected_errors=("favicon.ico", "404")
    )
    await page.goto("/jobs")
    await page.get_by_role("link", name="Continue with Example Id").click()
    await page.get_by_label("E-mail").fill(ADA["email"])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{service.url}/jobs")
    await expect(page.locator(".menu .who")).to_have_text("Ada")
    # Users who join this way are viewers.
    await expect(page.get_by_role("link", name="Settings")).to_have_count(0)
    await expect(page.get_by_role("link", name="New job")).to_have_count(0)
