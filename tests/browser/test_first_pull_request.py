"""From the printed link to a merged pull request, with JavaScript and without."""

import re

from playwright.async_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.service import REPO, BrowserTestService


async def create_job(page: Page, agent: str, prompt: str) -> None:
    await page.goto("/jobs/new")
    await page.get_by_label("Repository").select_option(REPO)
    await page.get_by_label("Agent", exact=True).select_option(agent)
    await page.get_by_label("What should the agent do?").fill(prompt)
    await page.get_by_role("button", name="Create job").click()
    await expect(page).to_have_url(re.compile(r"/jobs/job_\w+$"))


async def test_the_printed_link_leads_to_a_merged_pull_request(
    open_page: OpenPage, service: BrowserTestService
) -> None:
    page = await open_page()
    await page.goto(service.sign_in_link)
    await expect(page).to_have_url(f"{service.url}/")
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()

    await create_job(page, "waiting", "Wait for a signal")
    loaded = await page.evaluate("performance.timeOrigin")
    status = page.locator('[id="jobs/head"] .badge').first
    await expect(status).to_have_text("running")
    log = page.get_by_role("log")
    await expect(log.get_by_text("green", exact=True)).to_have_class(re.compile("a-green"))
    await expect(log).not_to_contain_text("red line")
    await expect(page.get_by_role("link", name="Download the full log")).to_be_visible()
    service.release_waiting_agent()
    await expect(log.get_by_text("red", exact=True)).to_be_visible()
    await expect(status).to_have_text("completed")
    assert await page.evaluate("performance.timeOrigin") == loaded, "the page was loaded again"

    await page.get_by_role("link", name="View pull request").click()
    await expect(page.locator(".badge").first).to_have_text("open")
    await page.get_by_role("link", name="Files changed").click()
    changes = page.get_by_role("region", name="Changes to shop/prices.py")
    await expect(changes).to_contain_text("rounded = True")
    await expect(changes.locator("tr.added span").first).to_be_visible()
    title = (await page.get_by_role("heading", level=1).inner_text()).split(" #")[0]
    await changes.locator("tr td[id]").first.click()
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_label("Comment on line")).to_have_count(0)
    await changes.locator("tr td[id]").first.click()
    await page.get_by_label("Comment on line").fill("Why here?")
    # What was written moves to another line.
    await changes.locator("tr.added td[id]").first.click()
    await expect(changes.locator("tr.added + tr textarea")).to_have_value("Why here?")
    await page.get_by_label("Comment on line").press("Tab")
    await page.keyboard.press("Enter")
    await expect(changes.locator("tr.added + tr.insert")).to_contain_text("Why here?")

    await page.get_by_role("button", name="Merge pull request", exact=True).click()
    await expect(page.locator(".badge").first).to_have_text("merged")
    assert title in service.commit_subjects()


async def test_a_pull_request_is_created_and_merged_without_javascript(
    open_page: OpenPage, service: BrowserTestService, admin_state: object
) -> None:
    page = await open_page(storage_state=admin_state, java_script_enabled=False)
    await create_job(page, "note-taker", "Take a note")
    job_id = page.url.rpartition("/")[2]
    service.api.wait_status(job_id, "completed")
    await page.reload()
    await expect(page.get_by_role("log")).to_contain_text("taking a note")
    await expect(page.get_by_label("Follow", exact=True)).to_be_hidden()
    await page.get_by_role("link", name="View pull request").click()
    await page.get_by_role("link", name="Files changed").click()
    changes = page.get_by_role("region", name="Changes to NOTES.md")
    await expect(changes).to_contain_text("noted in")
    await page.get_by_role("button", name="Merge pull request", exact=True).click()
    await expect(page.locator(".badge").first).to_have_text("merged")
    assert "Take a note" in service.commit_subjects()
