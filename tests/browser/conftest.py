"""One service and one browser for the suite; every test has its own browser window."""

import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.page_checks import COUNT_SHIFTS, PageMonitor
from tests.browser.sample_data import SampleData, create_samples
from tests.browser.service import GRACE, PASSWORD, BrowserTestService, run_browser_service
from tests.support.receiver import receiver

ARGUMENTS = [
    # Chromium's sandbox needs namespaces that containers and ordinary users often lack.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Agents are slow on a busy machine. Waits end as soon as their condition is true.
_TIMEOUT_MS = 60_000

OpenPage = Callable[..., Coroutine[Any, Any, Page]]


def pytest_itemcollected(item: pytest.Item) -> None:
    """The browser and its event loop live as long as the suite."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def browser_program() -> str:
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert program, "the browser is missing: scripts/system-packages chromium-headless-shell"
    return program


async def join(page: Page, name: str) -> None:
    """Fill in the form of an invitation."""
    await page.get_by_label("Your name").fill(name)
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Confirm password").fill(PASSWORD)
    await page.get_by_role("button", name="Join").click()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserTestService]:
    with run_browser_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def samples(service: BrowserTestService) -> Iterator[SampleData]:
    """Created once and only read; tests that change data create their own."""
    with receiver(
        lambda request: 500 if request.event == "job.failed" else 204
    ) as webhook_receiver:
        data = create_samples(service, webhook_receiver)
        yield data
        service.api.http.post(f"/jobs/{data.running}/cancel")
        service.api.wait_status(data.running, "cancelled")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=_TIMEOUT_MS)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=browser_program(), args=ARGUMENTS
        )
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def admin_state(browser: Browser, service: BrowserTestService) -> Any:
    """The cookies of Grace, an administrator who accepted her invitation, and an operator."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(service.invitation)
    await join(page, "Grace")
    await expect(page).to_have_url(f"{service.url}/")
    service.service.admin("users", "operator", "add", GRACE)
    state = await context.storage_state()
    await context.close()
    return state


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser, service: BrowserTestService) -> AsyncIterator[OpenPage]:
    """A window without a session, or with the session in `storage_state`. Errors that the browser
    reports fail the test, unless they contain one of `expected_errors`."""
    windows = []

    async def open_page(
        *, origins: tuple[str, ...] = (), expected_errors: tuple[str, ...] = (), **options: Any
    ) -> Page:
        context = await browser.new_context(base_url=service.url, **options)
        context.set_default_timeout(_TIMEOUT_MS)
        await context.add_init_script(COUNT_SHIFTS)
        monitor = PageMonitor(frozenset({service.url, *origins}), expected_errors)
        monitor.attach(context)
        windows.append((context, monitor))
        return await context.new_page()

    yield open_page
    problems = []
    for context, monitor in windows:
        await context.close()
        problems += monitor.problems()
    assert problems == [], service.errors()


@pytest_asyncio.fixture(loop_scope="session")
async def admin(open_page: OpenPage, admin_state: Any) -> Page:
    return await open_page(storage_state=admin_state)
