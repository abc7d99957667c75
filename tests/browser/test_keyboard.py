"""Keyboard operation: everything works without a mouse, and the focus is always visible."""

import re

from playwright.async_api import Locator, Page, StorageState, expect

from tests.browser.conftest import OpenPage
from tests.browser.sample_data import SampleData
from tests.browser.service import GRACE, PASSWORD, REPO, BrowserTestService

# More than any page has.
_MAX_TAB_STEPS = 60
_FOCUSED = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  const { width, height, left } = document.activeElement.getBoundingClientRect();
  const { tagName, className } = document.activeElement;
  return {
    place: `${tagName}.${className}`,
    hasOutline: outlineStyle !== "none" && outlineWidth !== "0px",
    isInView: width > 0 && height > 0 && left >= 0,
  };
}"""


async def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the element has the focus; every focused element must show it."""
    for _ in range(_MAX_TAB_STEPS):
        await page.keyboard.press("Tab")
        focused = await page.evaluate(_FOCUSED)
        if focused["place"] == "BODY.":
            continue
        assert focused["hasOutline"], focused
        assert focused["isInView"], focused
        if await target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"Tab never reached {target}")


async def test_a_job_is_created_with_the_keyboard_alone(
    open_page: OpenPage, service: BrowserTestService, admin_state: object
) -> None:
    page = await open_page()
    keyboard = page.keyboard
    await page.goto("/")
    await expect(page.get_by_label("Email address")).to_be_focused()
    await keyboard.type(GRACE)
    await tab_to(page, page.get_by_label("Password"))
    await keyboard.type(PASSWORD)
    await keyboard.press("Enter")
    await expect(page).to_have_url(f"{service.url}/")

    await tab_to(page, page.get_by_role("link", name="Skip to content"))
    await keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.reload()
    menu = page.locator("details.menu")
    await tab_to(page, menu.locator("summary"))
    await keyboard.press("Space")
    await expect(menu.get_by_role("button", name="Sign out")).to_be_visible()
    await tab_to(page, menu.get_by_role("link", name="Your account"))
    await keyboard.press("Escape")
    await expect(menu.get_by_role("button", name="Sign out")).to_be_hidden()
    await expect(menu.locator("summary")).to_be_focused()

    await tab_to(page, page.get_by_role("link", name="New job").first)
    await keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/jobs/new"))
    await tab_to(page, page.get_by_label("Repository"))
    await expect(page.get_by_label("Repository")).to_have_value(REPO)
    await tab_to(page, page.get_by_label("Agent", exact=True))
    await keyboard.type("Talker")
    await tab_to(page, page.get_by_label("What should the agent do?"))
    await keyboard.type("Talk to me")
    await tab_to(page, page.get_by_role("button", name="Create job"))
    await keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Talk to me")

    confirm = page.locator("details.confirm")
    await expect(page.locator('[id="jobs/head"] .badge').first).to_have_text("running")
    await tab_to(page, confirm.locator("summary"))
    await keyboard.press("Enter")
    await expect(confirm.get_by_role("button")).to_be_visible()
    await keyboard.press("Escape")
    await expect(confirm.get_by_role("button")).to_be_hidden()
    await expect(confirm.locator("summary")).to_be_focused()
    await keyboard.press("Enter")
    await tab_to(page, confirm.get_by_role("button"))
    await keyboard.press("Enter")
    await expect(page.locator('[id="jobs/head"] .badge').first).to_have_text("cancelled")


async def test_shortcuts_find_anything_and_move_through_lists(
    open_page: OpenPage, samples: SampleData, admin_state: StorageState
) -> None:
    page = await open_page(storage_state=admin_state)
    keyboard = page.keyboard
    await page.goto("/jobs")
    await keyboard.press("j")
    await keyboard.press("j")
    rows = page.locator("tbody tr")
    await expect(rows.nth(1).locator("a").first).to_be_focused()
    await keyboard.press("k")
    await expect(rows.nth(0).locator("a").first).to_be_focused()
    await keyboard.press("/")
    await expect(page.get_by_label("Search", exact=True)).to_be_focused()
    await page.get_by_label("Status").select_option("failed")
    await expect(page).to_have_url(re.compile("status=failed"))

    await keyboard.press("Control+k")
    await keyboard.type(samples.failed)
    results = page.locator("#finder li")
    await expect(results).to_have_count(1)
    await keyboard.press("ArrowDown")
    await expect(results.locator("a")).to_be_focused()
    await keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(f"/jobs/{samples.failed}$"))
    await keyboard.press("Control+k")
    await keyboard.press("Escape")
    await expect(page.locator("#finder")).to_be_hidden()
    await keyboard.press("Control+k")
    await keyboard.type("add a webhook")
    await expect(results).to_have_count(1)
    await keyboard.press("Enter")
    await expect(page.get_by_label("Endpoint URL", exact=True)).to_be_focused()


async def test_a_filter_keeps_the_focus_and_shows_what_the_list_has(admin: Page) -> None:
    await admin.goto("/jobs")
    status = admin.get_by_label("Status")
    await status.focus()
    await status.select_option("failed")
    # Filters that are not used are not part of the address.
    await expect(admin).to_have_url(re.compile(r"/jobs\?status=failed$"))
    await expect(admin.get_by_label("Status")).to_be_focused()
    await admin.go_back()
    await expect(admin).to_have_url(re.compile("/jobs$"))
    await expect(admin.get_by_label("Status")).to_have_value("")
