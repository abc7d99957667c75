"""Layout: nothing is cut off or out of view."""

from typing import Any

import msgspec
from playwright.async_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.page_checks import layout_faults
from tests.browser.sample_data import SampleData
from tests.browser.service import REPO, BrowserTestService

_IS_IN_BAR = """(current) => {
  const bar = current.parentElement.getBoundingClientRect();
  const { left, right } = current.getBoundingClientRect();
  return left >= bar.left - 1 && right <= bar.right + 1;
}"""
_PHONE: Any = {"width": 360, "height": 740}


async def test_a_phone_shows_which_page_is_open_in_both_navigation_bars(
    open_page: OpenPage, admin_state: Any
) -> None:
    page = await open_page(storage_state=admin_state, viewport=_PHONE, has_touch=True)
    for address in ("/settings/audit-log", "/settings/budgets", "/settings/api-keys"):
        await page.goto(address)
        for bar in (".sections", ".side"):
            current = page.locator(f"{bar} [aria-current]")
            assert await current.evaluate(_IS_IN_BAR), f"{address} {bar}"


async def test_a_phone_shows_the_api_reference_in_its_width_and_the_first_call_early(
    open_page: OpenPage,
) -> None:
    page = await open_page(viewport=_PHONE)
    await page.goto("/v1/docs")
    assert await page.evaluate("document.documentElement.scrollWidth") == _PHONE["width"]
    first_call = await page.locator("#first-call").bounding_box()
    assert first_call is not None
    assert first_call["y"] < _PHONE["height"]


async def test_a_confirmation_in_a_table_is_shown_whole(
    admin: Page, service: BrowserTestService
) -> None:
    # With something in every column.
    networks = "--network=127.0.0.0/8,2001:db8:1234:5678:9abc:def0:1234:0/112"
    options = ("--name", "to be revoked", "--expires-days", "30", "--git-write", networks)
    service.service.client(service.service.key(*options)).http.get("/agents")
    # 1264 px remain of 1280 px beside a scrollbar.
    await admin.set_viewport_size({"width": 1264, "height": 1600})
    await admin.goto("/settings/api-keys")
    table = admin.locator(".table").first
    assert await table.evaluate("(table) => table.scrollWidth <= table.clientWidth")
    row = admin.get_by_role("row", name="to be revoked")
    before = await row.get_by_role("cell").first.bounding_box()
    await row.get_by_label("Actions: ").click()
    await row.get_by_text("Revoke…").click()
    body = row.locator(".confirm-body")
    await expect(body).to_contain_text("stops working immediately")
    shown = await body.evaluate(
        """(body) => {
          const { left, right, bottom, top } = body.getBoundingClientRect();
          const at = (x, y) => body.contains(document.elementFromPoint(x, y));
          return at(left + 9, top + 9) && at(right - 9, bottom - 9) && right <= innerWidth;
        }"""
    )
    assert shown
    # The columns keep their width.
    assert await row.get_by_role("cell").first.bounding_box() == before


async def test_an_opened_confirmation_moves_no_button_beside_it(
    admin: Page, samples: SampleData
) -> None:
    await admin.goto(f"/settings/webhooks/{samples.endpoint}")
    test = admin.get_by_role("button", name="Send as test")
    before = await test.bounding_box()
    await admin.get_by_label("Actions: ").click()
    await admin.get_by_text("Rotate secret…").click()
    await expect(admin.get_by_label("Overlap in hours")).to_be_visible()
    assert await test.bounding_box() == before


async def test_the_header_reaches_the_right_edge_of_a_short_page(admin: Page) -> None:
    await admin.goto("/jobs?q=nothing+is+called+this")
    edges = await admin.evaluate(
        """() => [
          document.querySelector(".bar").getBoundingClientRect().right,
          document.documentElement.clientWidth,
          getComputedStyle(document.documentElement).scrollbarGutter,
        ]"""
    )
    assert edges[0] == edges[1]
    # A gutter has the page's background and would cut off the header.
    assert edges[2] == "auto"


async def test_a_long_value_does_not_make_the_cards_grow(admin: Page) -> None:
    await admin.set_viewport_size({"width": 1264, "height": 800})
    await admin.goto("/")
    heights = await admin.evaluate(
        """() => {
          const tiles = [...document.querySelectorAll(".tile")];
          const tile = tiles[4].querySelector("dd");
          tile.firstChild.textContent = "9 s ";
          const before = tiles[0].offsetHeight;
          tile.firstChild.textContent = "59 min 59 s ";
          return [before, tiles[0].offsetHeight, tile.scrollWidth <= tile.clientWidth];
        }"""
    )
    assert heights[0] == heights[1]
    assert heights[2]


async def test_the_elapsed_time_of_a_running_job_is_updated(
    open_page: OpenPage, admin_state: Any, samples: SampleData
) -> None:
    page = await open_page(storage_state=admin_state)
    await page.clock.install()
    # An update from the server would start again at the actual time.
    await page.route("**/stream?*", lambda _: None)
    await page.goto(f"/jobs/{samples.running}")
    shown = page.locator('[id="jobs/details"] [data-elapsed]')
    first = await shown.inner_text()
    await page.clock.fast_forward("02:00:00")
    await expect(shown).not_to_have_text(first)
    await expect(shown).to_contain_text("2 h")
    await expect(page.locator('[id="jobs/details"] [data-moment]').first).to_have_text("2 h ago")


async def test_pages_are_in_the_browsers_time_zone(
    open_page: OpenPage, admin_state: Any, samples: SampleData
) -> None:
    page = await open_page(storage_state=admin_state, timezone_id="Asia/Tokyo")
    await page.goto("/")
    await page.goto(f"/jobs/{samples.completed}")
    await expect(page.locator("footer")).to_contain_text("Times are in Asia/Tokyo.")
    created = page.locator('[id="jobs/details"] time').first
    local = await created.evaluate(
        """(time) => new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" })
          .format(new Date(time.dateTime))"""
    )
    assert await created.get_attribute("title") == local
    await page.goto("/jobs")
    await page.get_by_text("More filters").click()
    await expect(page.get_by_label("From (JST)")).to_be_visible()


async def test_without_javascript_pages_are_in_utc(
    open_page: OpenPage, service: BrowserTestService, samples: SampleData
) -> None:
    page = await open_page(java_script_enabled=False, timezone_id="Asia/Tokyo")
    await page.goto("/sign-in")
    await expect(page.locator("footer")).to_contain_text("Times are in UTC.")


async def test_the_commits_of_a_job_are_shown_without_scripts(
    open_page: OpenPage, admin_state: Any, samples: SampleData
) -> None:
    page = await open_page(storage_state=admin_state, java_script_enabled=False)
    await page.goto(f"/jobs/{samples.completed}")
    for commit in (samples.base, samples.head):
        await expect(page.locator('[id="jobs/details"]').get_by_text(commit[:12])).to_be_visible()


async def test_long_words_widen_no_page(admin: Page, service: BrowserTestService) -> None:
    word = "Wxyzabcd" * 25
    title = {"title": word, "prompt": "x"}
    job = service.api.create(REPO, "note-taker", config_override=title)
    pull = service.api.wait_status(job, "completed")["pr_number"]
    added = service.service.admin("webhooks", "add", f"https://example.com/{word}", "--json")
    webhook = msgspec.json.decode(added)["id"]
    try:
        for address in (
            *("/", "/jobs", f"/jobs/{job}", f"/repos/{REPO}", f"/default/{REPO}/pulls/{pull}"),
            *("/settings/webhooks", f"/settings/webhooks/{webhook}", "/settings/audit-log"),
        ):
            await admin.goto(address)
            assert await layout_faults(admin) == [], address
    finally:
        service.service.admin("webhooks", "remove", webhook)


async def test_the_number_of_a_pull_request_follows_a_title_from_right_to_left(
    admin: Page, samples: SampleData
) -> None:
    await admin.goto(f"/default/{REPO}/pulls/{samples.pull}")
    title = admin.get_by_role("heading", level=1)
    edges = await title.evaluate(
        """(title) => {
          title.firstChild.textContent = "מחירים ";
          const range = document.createRange();
          range.selectNode(title.firstChild);
          const number = title.children[0];
          return [range.getBoundingClientRect().right, number.getBoundingClientRect().left];
        }"""
    )
    assert edges[0] <= edges[1]


async def test_what_a_button_found_or_could_not_do_is_shown(
    open_page: OpenPage, admin_state: Any, samples: SampleData
) -> None:
    page = await open_page(storage_state=admin_state, expected_errors=("ERR_FAILED", "/search"))
    await page.goto(f"/jobs/{samples.running}")
    await page.get_by_role("button", name="First error").click()
    notice = await page.get_by_text("No line looks like an error.").bounding_box()
    assert notice is not None
    assert notice["width"] > 100
    await page.route("**/search?*", lambda route: route.abort())
    await page.keyboard.press("Control+k")
    await expect(page.locator("#finder")).to_contain_text("Could not search.")
