"""What holds for each page there is, in both colour schemes."""

from typing import Any

import pytest
from playwright.async_api import Page

from agentjobs.web.dashboard.routes import ROUTES
from tests.browser.conftest import OpenPage
from tests.browser.page_checks import (
    MOST_SHIFT,
    accessibility_faults,
    layout_shift,
    overflowing_widths,
)
from tests.browser.platforms import PLATFORM_REPO
from tests.browser.sample_data import SampleData
from tests.browser.service import REPO, BrowserTestService
from tests.support.service import wait_until

# No pages: streams, plain text, and ways to other places.
_NO_PAGES = ("/stream", "/log", "/settings", "/sign-in/oidc", "/sign-in/oidc/callback")
# A browser tells the status of a page that says no.
_REFUSALS = ("status of 400", "status of 404", "status of 422")
# What fades from one colour to another has neither in between.
_STILL: Any = {"color_scheme": "light", "reduced_motion": "reduce"}
_FOR_GUESTS = ("/sign-in", "/invitation")


def pages_of(samples: SampleData) -> list[str]:
    """From the dashboard's own list, so that a new page is looked at without further ado."""
    paths = [route.path for route in ROUTES if route.method == "GET"]
    pages = [path for path in paths if not path.endswith(_NO_PAGES) and path not in _FOR_GUESTS]
    return [
        *(samples.address_of(path) for path in pages),
        # The same pages with something else to show.
        f"/jobs/{samples.failed}",
        f"/jobs/{samples.running}",
        "/jobs?q=nothing+is+called+this",
        f"/repos/{REPO}/graph",
        f"/repos/{REPO}/graph?q=shop",
        f"/repos/{REPO}/graph?external=requests",
        f"/repos/{REPO}/graph?ecosystem=npm&package=mkdirp",
        f"/repos/{REPO}/graph?node=nowhere.py",
        f"/repos/{REPO}/dependencies?q=nothing+is+called+this",
        "/vulnerabilities?q=nothing+is+called+this",
        "/settings/audit-log?since=2026-02-02&until=2026-01-01",
        "/settings/webhooks/nowhere",
        f"/repos/{PLATFORM_REPO}",
        f"/default/{PLATFORM_REPO}/pulls/1",
    ]


async def faults_of(page: Page, address: str) -> list[str]:
    answer = await page.goto(address)
    assert answer is not None
    found = await accessibility_faults(page)
    shift = await layout_shift(page)
    if shift >= MOST_SHIFT:
        found.append(f"moved by {shift:.3f} while it was loaded")
    found += await overflowing_widths(page)
    return [f"{address}: {fault}" for fault in found]


# Some thirty pages: on a machine that is busy with other things that takes a while.
@pytest.mark.timeout(300)
async def test_every_page_is_accessible_and_stays_in_its_frame(
    open_page: OpenPage, admin_state: Any, samples: SampleData, service: BrowserTestService
) -> None:
    # What a story before this one pushed is shown while it is read, and moves the rest.
    wait_until(service.is_settled, "the index and the scan")
    page = await open_page(storage_state=admin_state, excused=_REFUSALS, **_STILL)
    found = []
    for address in pages_of(samples):
        found += await faults_of(page, address)
    assert found == []


async def test_so_are_the_pages_of_those_who_are_not_signed_in(
    open_page: OpenPage, service: BrowserTestService
) -> None:
    page = await open_page(excused=_REFUSALS, **_STILL)
    found = []
    for address in (*_FOR_GUESTS, "/sign-in?token=used"):
        found += await faults_of(page, address)
    assert found == []
