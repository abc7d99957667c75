"""The ten main tasks from the overview to their end, and the clicks and keystrokes each takes.

A change that makes one of them longer fails here; docs/design.md has the table.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.conftest import join
from tests.browser.sample_data import create_samples
from tests.browser.service import REPO, BrowserTestService, run_browser_service
from tests.support.receiver import receiver
from tests.support.service import wait_until

_WAITING = ("First wait", "Second wait", "Third wait")


@dataclass
class Hand:
    """Does what a person does with mouse and keyboard, and counts it."""

    page: Page
    clicks: int = 0
    keys: int = 0

    async def click(self, target: Locator) -> None:
        self.clicks += 1
        await target.click()

    async def choose(self, label: str, value: str) -> None:
        """One click opens the list, another one selects."""
        self.clicks += 2
        await self.page.get_by_label(label, exact=True).select_option(value)

    async def press(self, key: str) -> None:
        self.keys += 1
        await self.page.keyboard.press(key)

    async def type(self, text: str) -> None:
        self.keys += len(text)
        await self.page.keyboard.type(text)

    async def find(self, words: str, result: str) -> None:
        """Open a page with the search of the header."""
        await self.press("Control+k")
        await self.type(words)
        await expect(self.page.locator("#finder li").first).to_contain_text(result)
        await self.press("Enter")


async def see_why_a_job_failed(hand: Hand) -> None:
    await hand.click(
        hand.page.locator('[id="overview/attention"]').get_by_role("link", name="Find out why")
    )
    await expect(hand.page.get_by_text("these are my last words").first).to_be_visible()


async def start_a_job(hand: Hand) -> None:
    page = hand.page
    await hand.click(page.get_by_role("link", name="New job"))
    await hand.choose("Agent", "note-taker")
    await hand.click(page.get_by_label("What should the agent do?"))
    await hand.type("Note it")
    await hand.press("Control+Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Note it")


async def merge_a_pull_request(hand: Hand) -> None:
    page = hand.page
    await hand.click(page.locator('[id="overview/attention"]').get_by_role("link", name="SHOP-12"))
    await hand.click(page.get_by_role("button", name="Merge pull request"))
    await expect(page.locator(".badge", has_text="merged").first).to_be_visible()


async def fix_a_vulnerable_package(hand: Hand) -> None:
    page = hand.page
    await hand.click(page.locator('[id="overview/attention"]').get_by_role("link", name="critical"))
    await hand.click(page.get_by_role("button", name="Fix minimist"))
    await expect(page.locator("tr", has_text="minimist").locator(".badge").nth(1)).to_be_visible()


async def redeliver_an_event(hand: Hand) -> None:
    page = hand.page
    await hand.click(page.get_by_role("link", name="failed deliveries"))
    row = page.locator("tbody tr", has_text="job.failed")
    await hand.click(row.first.get_by_role("button", name="Redeliver"))
    await expect(page.locator("#attempt-3")).to_be_visible()


async def add_a_webhook(hand: Hand) -> None:
    await hand.find("add a w", "Add a webhook")
    await expect(hand.page.get_by_label("Endpoint URL", exact=True)).to_be_focused()
    await hand.type("https://ci.example.com/hook")
    await hand.press("Enter")
    await expect(hand.page.locator(".once")).to_be_visible()


async def invite_a_member(hand: Hand) -> None:
    await hand.find("invite", "Invite a member")
    await expect(hand.page.get_by_label("Email address")).to_be_focused()
    await hand.type("ada@example.com")
    await hand.press("Enter")
    await expect(hand.page.locator(".once")).to_be_visible()


async def connect_a_repository(hand: Hand) -> None:
    await hand.find("connect a r", "Connect a repository")
    await expect(hand.page.get_by_label("Address", exact=True)).to_be_focused()
    await hand.type("https://git.example.com/a/b")
    await hand.press("Enter")
    await expect(hand.page.get_by_text("git.example.com").first).to_be_visible()


async def see_what_uses_a_package(hand: Hand) -> None:
    page = hand.page
    await hand.click(page.get_by_role("link", name="Repositories"))
    await hand.click(page.get_by_role("link", name=REPO))
    await hand.click(page.get_by_role("link", name="Graph"))
    await hand.press("/")
    await hand.type("requests")
    await hand.press("Enter")
    await hand.click(page.locator(".node-list").get_by_role("link", name="requests").first)
    await expect(page.get_by_role("region", name="Imported by")).to_contain_text("shop/")


async def cancel_three_jobs(hand: Hand) -> None:
    page = hand.page
    await hand.click(page.get_by_role("link", name="Jobs", exact=True))
    for title in _WAITING:
        await hand.click(page.get_by_label(f"Select {title}"))
    await hand.click(page.locator("#cancel-selected summary"))
    await hand.click(page.get_by_role("button", name="Cancel jobs"))
    for title in _WAITING:
        row = page.locator("tr", has_text=title)
        await expect(row.locator(".badge")).to_have_text("cancelled")


Task = Callable[[Hand], Awaitable[None]]
# Clicks and keystrokes.
_TASKS: dict[Task, tuple[int, int]] = {
    see_why_a_job_failed: (1, 0),
    start_a_job: (4, 8),
    merge_a_pull_request: (2, 0),
    fix_a_vulnerable_package: (2, 0),
    redeliver_an_event: (2, 0),
    add_a_webhook: (0, 37),
    invite_a_member: (0, 24),
    connect_a_repository: (0, 41),
    see_what_uses_a_package: (4, 10),
    cancel_three_jobs: (6, 0),
}


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[BrowserTestService]:
    """The tasks change what other tests read."""
    with (
        run_browser_service(tmp_path) as running,
        receiver(lambda request: 500 if request.event == "job.failed" else 204) as hook,
    ):
        create_samples(running, hook)
        for title in _WAITING:
            running.api.create(REPO, "talker", config_override={"title": title})
        wait_until(running.is_settled, "the index and the scan")
        yield running


@pytest.mark.timeout(600)
async def test_main_tasks_take_few_steps(browser: Browser, own_service: BrowserTestService) -> None:
    context = await browser.new_context(base_url=own_service.url)
    page = await context.new_page()
    await page.goto(own_service.invitation)
    await join(page, "Grace")
    await expect(page).to_have_url(f"{own_service.url}/")
    counts = {}
    for task in _TASKS:
        hand = Hand(page)
        await page.goto("/")
        await task(hand)
        counts[task] = (hand.clicks, hand.keys)
    await context.close()
    assert counts == _TASKS
