"""The page of a running job."""

import re

from playwright.async_api import Page, expect

from tests.browser.service import REPO, BrowserTestService
from tests.browser.steps import STEPS, add_steps

_IS_AT_ITS_END = """() => {
  const { scrollTop, clientHeight, scrollHeight } = document.getElementById("log");
  return scrollTop > 0 && scrollTop + clientHeight >= scrollHeight - 2;
}"""


async def test_a_running_job_is_followed_searched_and_cancelled(
    admin: Page, service: BrowserTestService
) -> None:
    job_id = service.api.create(REPO, "talker")
    await admin.goto(f"/jobs/{job_id}")
    log = admin.get_by_role("log")
    await expect(log).to_contain_text("Needle two")
    follow = admin.get_by_role("checkbox", name="Follow")
    await expect(follow).to_be_checked()
    await admin.wait_for_function(_IS_AT_ITS_END)
    await expect(admin).to_have_title(re.compile("^Running: "))
    icon = admin.locator("link[rel=icon]")
    await expect(icon).to_have_attribute("href", re.compile(r"/icon-running\."))
    await admin.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await admin.get_by_role("button", name="Copy job ID").click()
    await expect(admin.locator("#announcements")).to_contain_text("Copied")
    assert await admin.evaluate("navigator.clipboard.readText()") == job_id

    await admin.get_by_role("searchbox", name="Search the log").fill("needle")
    await expect(admin.locator("#log-match-count")).to_have_text("1 of 2")
    await expect(log.locator(".hit")).to_have_count(2)
    await expect(log.locator(".hit.current")).to_have_text("needle one")
    await expect(log.locator(".hit.current")).to_be_in_viewport()
    await expect(follow).not_to_be_checked()
    await admin.get_by_role("searchbox", name="Search the log").press("Enter")
    await expect(log.locator(".hit.current")).to_have_text("Needle two")
    await expect(admin.locator("#log-match-count")).to_have_text("2 of 2")
    await admin.get_by_role("button", name="Previous match").click()
    await expect(log.locator(".hit.current")).to_have_text("needle one")
    await log.locator(".line").first.click(position={"x": 6, "y": 6})
    await expect(admin).to_have_url(re.compile("#L1$"))
    await expect(log.locator(".line.current")).to_have_count(1)
    await admin.get_by_label("Wrap lines").uncheck()
    await expect(log).not_to_have_class(re.compile("wrap"))
    await admin.get_by_label("Times").check()
    await admin.reload()
    # Both choices are kept.
    await expect(log).to_have_class("log-box times")
    for line in (log.locator(".line").first, log.locator(".line").last):
        await expect(line).to_have_attribute("data-at", re.compile(r"^\d\d:\d\d:\d\d$"))

    await admin.get_by_text("Cancel job…").click()
    await admin.get_by_role("button", name="Cancel job", exact=True).click()
    await expect(admin.locator('[id="jobs/head"] .badge').first).to_have_text("cancelled")
    await expect(admin).to_have_title(re.compile("^Cancelled: "))
    await expect(icon).to_have_attribute("href", re.compile(r"/icon\."))
    await expect(admin.get_by_role("button", name="Run again")).to_be_visible()


async def test_steps_appear_while_opened_ones_stay_as_they_are(
    admin: Page, service: BrowserTestService
) -> None:
    job_id = service.api.create(REPO, "talker")
    service.api.wait_status(job_id, "running")
    data_dir = service.service.data_dir
    await admin.goto(f"/jobs/{job_id}")
    await admin.get_by_role("link", name="Steps").click()
    await expect(admin.get_by_text("No steps yet")).to_be_visible()
    await add_steps(data_dir, job_id, *STEPS)
    failed = admin.locator("summary", has_text="exit 1")
    output = admin.get_by_text("1 failed, 3 passed")
    await expect(output).to_be_hidden()
    await failed.click()
    await expect(output).to_be_visible()
    await add_steps(data_dir, job_id, {"kind": "command", "title": "make all"}, after=len(STEPS))
    await expect(admin.get_by_text("make all")).to_be_visible()
    await expect(output).to_be_visible()
    await expect(failed).to_be_focused()

    await admin.get_by_role("link", name="5 commands").click()
    await expect(admin.get_by_text("Commands only.")).to_be_visible()
    await expect(admin.locator(".step")).to_have_count(5)
    service.api.http.post(f"/jobs/{job_id}/cancel")
    service.api.wait_status(job_id, "cancelled")
