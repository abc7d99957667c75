"""Every page of the built site in a browser: it loads its own files only, and fits the screen."""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.page_checks import AXE, PageMonitor
from tests.site.conftest import SITE

SIZES = {"desktop": (1280, 900), "phone": (360, 800)}
_WIDTH = "document.documentElement.scrollWidth"
_VIOLATIONS = """async () => {
  const { violations } = await axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
}"""


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=60_000)
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert program, "the browser is missing: scripts/system-packages chromium-headless-shell"
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        await chromium.close()


async def open_window(
    browser: Browser, site_url: str, **options: object
) -> tuple[Page, PageMonitor]:
    context = await browser.new_context(base_url=site_url, **options)
    monitor = PageMonitor(frozenset({site_url}), ())
    monitor.attach(context)
    return await context.new_page(), monitor


@pytest.mark.parametrize(("scheme", "size"), [("light", "desktop"), ("dark", "phone")])
async def test_every_page_loads_only_its_own_files_and_fits_the_screen(
    browser: Browser, site_url: str, scheme: str, size: str
) -> None:
    width, height = SIZES[size]
    page, monitor = await open_window(
        browser, site_url, color_scheme=scheme, viewport={"width": width, "height": height}
    )
    pages = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    assert len(pages) > 60
    too_wide = []
    for name in pages:
        await page.goto(name, wait_until="load")
        if await page.evaluate(_WIDTH) > width:
            too_wide.append(name)
    assert too_wide == []
    assert monitor.problems() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_are_accessible(browser: Browser, site_url: str, scheme: str) -> None:
    page, monitor = await open_window(browser, site_url, color_scheme=scheme)
    for name in ("index", "quickstart", "concepts", "reference/api/jobs", "reference/settings"):
        await page.goto(f"/{name}.html")
        await page.add_script_tag(path=AXE)
        assert await page.evaluate(_VIOLATIONS) == [], name
    assert monitor.problems() == []


async def test_the_search_finds_commands_settings_and_operations(
    browser: Browser, site_url: str
) -> None:
    page, monitor = await open_window(browser, site_url)
    await page.goto("/index.html")
    for text, target in (
        ("AGENTJOBS_DRAIN_GRACE_SECONDS", "reference/settings.html"),
        ("rotate-hook-secret", "reference/commands.html"),
        ("follow-ups", "reference/api/jobs.html"),
    ):
        await page.get_by_placeholder("Search").click()
        await page.get_by_placeholder("Search").fill("")
        await page.get_by_placeholder("Search").press_sequentially(text)
        result = page.locator(f".md-search-result__link[href*='{target}']").first
        await expect(result).to_be_attached()
    assert monitor.problems() == []


async def test_the_tabs_of_all_examples_follow_the_chosen_language(
    browser: Browser, site_url: str
) -> None:
    page, monitor = await open_window(browser, site_url)
    await page.goto("/reference/api/jobs.html")
    await page.get_by_text("TypeScript", exact=True).first.click()
    await expect(page.get_by_text("client.jobs.create(").first).to_be_visible()
    await expect(page.get_by_text("client.jobs.cancel(").first).to_be_visible()
    await expect(page.get_by_text("client.create_job(").first).to_be_hidden()
    assert monitor.problems() == []


async def test_pictures_follow_the_color_scheme(browser: Browser, site_url: str) -> None:
    for scheme, other in (("light", "dark"), ("dark", "light")):
        page, monitor = await open_window(browser, site_url, color_scheme=scheme)
        await page.goto("/concepts.html")
        await expect(page.locator(f"img[src*='job-states-{scheme}']")).to_be_visible()
        await expect(page.locator(f"img[src*='job-states-{other}']")).to_be_hidden()
        assert monitor.problems() == []
