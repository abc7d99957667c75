"""Pictures of every page at three widths, light and dark, for whoever changes a page.

python -m tests.browser DIRECTORY [PART OF AN ADDRESS]
"""

import asyncio
import re
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, StorageState, async_playwright, expect

from tests.browser.conftest import ARGUMENTS, browser_program, join
from tests.browser.sample_data import SampleData, create_samples
from tests.browser.service import GRACE, BrowserTestService, run_browser_service
from tests.browser.test_every_page import FOR_GUESTS, pages_of
from tests.support.receiver import receiver
from tests.support.service import wait_until

_WIDTHS = (390, 1024, 1440)
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_HEIGHT = 900


def main(directory: Path, part: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as temporary,
        run_browser_service(Path(temporary)) as service,
        receiver(lambda request: 500 if request.event == "job.failed" else 204) as webhook_receiver,
    ):
        samples = create_samples(service, webhook_receiver)
        wait_until(service.is_settled, "the index and the scan")
        asyncio.run(_take_pictures(service, samples, directory, part))


async def _take_pictures(
    service: BrowserTestService, samples: SampleData, directory: Path, part: str
) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=browser_program(), args=ARGUMENTS
        )
        signed_in = await _sign_in(browser, service)
        pages = [(page, signed_in) for page in pages_of(samples)]
        pages += [(page, None) for page in FOR_GUESTS]
        chosen = [(address, state) for address, state in pages if part in address]
        for width, scheme, (address, state) in product(_WIDTHS, _SCHEMES, chosen):
            path = directory / f"{_name(address)}-{width}-{scheme}.png"
            context = await browser.new_context(
                base_url=service.url,
                storage_state=state,
                color_scheme=scheme,
                viewport={"width": width, "height": _HEIGHT},
                reduced_motion="reduce",
            )
            page = await context.new_page()
            await page.goto(address)
            await page.screenshot(path=path, full_page=True, animations="disabled")
            await context.close()
            print(path)
        await browser.close()


async def _sign_in(browser: Browser, service: BrowserTestService) -> StorageState:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(service.invitation)
    await join(page, "Grace")
    await expect(page).to_have_url(f"{service.url}/")
    service.service.admin("users", "operator", "add", GRACE)
    return await context.storage_state()


def _name(address: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", address.lower()).strip("-") or "overview"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
