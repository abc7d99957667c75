"""What holds for each page there is, in both colour schemes."""

from typing import Any

import pytest
from playwright.async_api import Page

from agentjobs.web.dashboard.routes import ROUTES
from tests.browser.conftest import OpenPage
from tests.browser.page_checks import (
    MOST_SHIFT,
    faults_of_accessibility,
    shift_of,
    widths_that_overflow,
)
from tests.browser.platforms import PLATFORM_REPO
from tests.browser.sample_data import Things
from tests.browser.service import REPO, House
from tests.support.service import wait_until

# No pages: streams, plain text, and ways to other places.
_NO_PAGES = ("/stream", "/log", "/settings", "/sign-in/oidc", "/sign-in/oidc/callback")
# A browser tells the status of a page that says no.
_REFUSALS = ("status of 400", "status of 404", "status of 422")
# What fades from one colour to another has neither in between.
_STILL: Any = {"color_scheme": "light", "reduced_motion": "reduce"}
_FOR_GUESTS = ("/sign-in", "/invitation")


def pages_of(things: Things) -> list[str]:
    """From the dashboard's own list, so that a new page is looked at without further ado."""
    paths = [place.path for place in ROUTES if place.method == "GET"]
    pages = [path for path in paths if not path.endswith(_NO_PAGES) and path not in _FOR_GUESTS]
    return [
        *(things.address_of(path) for path in pages),
        # The same pages with something else to show.
        f"/jobs/{things.failed}",
        f"/jobs/{things.running}",
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
    found = await faults_of_accessibility(page)
    shift = await shift_of(page)
    if shift >= MOST_SHIFT:
        found.append(f"moved by {shift:.3f} while it was loaded")
    found += await widths_that_overflow(page)
    return [f"{address}: {fault}" for fault in found]


# Some thirty pages: on a machine that is busy with other things that takes a while.
@pytest.mark.timeout(300)
async def test_every_page_is_accessible_and_stays_in_its_frame(
    open_window: OpenPage, admin_state: Any, things: Things, house: House
) -> None:
    # What a story before this one pushed is shown while it is read, and moves the rest.
    wait_until(house.is_settled, "the index and the scan")
    page = await open_window(storage_state=admin_state, excused=_REFUSALS, **_STILL)
    found = []
    for address in pages_of(things):
        found += await faults_of(page, address)
    assert found == []


async def test_so_are_the_pages_of_those_who_are_not_signed_in(
    open_window: OpenPage, house: House
) -> None:
    page = await open_window(excused=_REFUSALS, **_STILL)
    found = []
    for address in (*_FOR_GUESTS, "/sign-in?token=used"):
        found += await faults_of(page, address)
    assert found == []
