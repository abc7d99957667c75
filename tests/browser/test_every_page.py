"""Checks of every page, in both colour schemes."""

from typing import Any

import pytest
from playwright.async_api import Page

from agentjobs.web.dashboard.routes import ROUTES
from tests.browser.conftest import OpenPage
from tests.browser.page_checks import (
    HEIGHT,
    MAX_LAYOUT_SHIFT,
    WIDTHS,
    AccessibilityChecker,
    layout_faults,
    layout_shift,
)
from tests.browser.platforms import PLATFORM_REPO
from tests.browser.sample_data import SampleData
from tests.browser.service import REPO, BrowserTestService
from tests.support.service import wait_until

# Streams, plain text and downloads.
_NOT_PAGES = ("/stream", "/log", "/artifacts/{name}")
_REDIRECTS = ("/settings", "/settings/workers", "/sign-in/oidc", "/sign-in/oidc/callback")
# The browser logs the status of an error page.
_REFUSALS = ("status of 400", "status of 404", "status of 422")
# Without transitions, whose intermediate colours would fail the contrast check.
_STILL: Any = {
    "color_scheme": "light",
    "reduced_motion": "reduce",
    "viewport": {"width": WIDTHS[-1], "height": HEIGHT},
}
FOR_GUESTS = ("/sign-in", "/invitation", "/password-reset")


def pages_of(samples: SampleData) -> list[str]:
    """All pages in the dashboard's routes, so that new pages are checked automatically."""
    paths = [route.path for route in ROUTES if route.method == "GET"]
    others = (*_REDIRECTS, *FOR_GUESTS)
    pages = [path for path in paths if not path.endswith(_NOT_PAGES) and path not in others]
    return [
        *(samples.address_of(path) for path in pages),
        # The same pages with other content.
        f"/jobs/{samples.failed}",
        f"/jobs/{samples.running}",
        f"/jobs/{samples.completed}?view=steps",
        f"/jobs/{samples.completed}?view=steps&kind=command",
        f"/jobs/{samples.running}?view=steps",
        "/jobs?q=nothing+is+called+this",
        "/jobs?label=team",
        "/repos?q=nothing+is+called+this",
        f"/repos/{REPO}/graph",
        f"/repos/{REPO}/graph?q=shop",
        f"/repos/{REPO}/graph?folder=shop",
        f"/repos/{REPO}/graph?external=requests",
        f"/repos/{REPO}/graph?node=nowhere.py",
        f"/repos/{REPO}/dependencies?q=nothing+is+called+this",
        "/vulnerabilities?q=nothing+is+called+this",
        "/vulnerabilities?group=advisory",
        "/settings/audit-log?since=2026-02-02&until=2026-01-01",
        "/settings/webhooks/nowhere",
        f"/repos/{PLATFORM_REPO}",
        f"/repos/{PLATFORM_REPO}/environment",
        f"/default/{PLATFORM_REPO}/pulls/1",
    ]


async def check_page(page: Page, checker: AccessibilityChecker, address: str) -> list[str]:
    response = await page.goto(address)
    assert response is not None
    faults = await checker.faults(page)
    shift = await layout_shift(page)
    if shift >= MAX_LAYOUT_SHIFT:
        faults.append(f"moved by {shift:.3f} while it was loaded")
    faults += await layout_faults(page)
    return [f"{address}: {fault}" for fault in faults]


# Some fifty pages take a while on a busy machine.
@pytest.mark.timeout(300)
async def test_every_page_is_accessible_and_keeps_its_layout(
    open_page: OpenPage, admin_state: Any, samples: SampleData, service: BrowserTestService
) -> None:
    # Indexing after another test's push changes the layout.
    wait_until(service.is_settled, "the index and the scan")
    page = await open_page(storage_state=admin_state, expected_errors=_REFUSALS, **_STILL)
    checker = await AccessibilityChecker.open(page.context, "/account")
    faults = []
    for address in pages_of(samples):
        faults += await check_page(page, checker, address)
    guest_page = await open_page(expected_errors=_REFUSALS, **_STILL)
    for address in (*FOR_GUESTS, "/sign-in?token=used"):
        faults += await check_page(guest_page, checker, address)
    assert faults == []
