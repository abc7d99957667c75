"""The screenshots in the README.

They are written only if AGENTJOBS_TEST_SCREENSHOTS is set, as `make screenshots` does; other test
runs do not change the checkout.
"""

import os
import struct
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.sample_data import SampleData
from tests.support.paths import PROJECT

_SIZE = (1280, 800)
_IMAGES = PROJECT / "docs" / "images"
# Empty or cut-off screenshots are smaller; larger files do not belong in git.
_MIN_BYTES, _MAX_BYTES = 15_000, 400_000


async def take_screenshot(page: Page, address: str, name: str, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.goto(address)
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    image = await page.screenshot(animations="disabled", caret="hide")
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", image[16:24]) == _SIZE
    assert _MIN_BYTES < len(image) < _MAX_BYTES, f"{name}: {len(image)} bytes"
    if os.environ.get("AGENTJOBS_TEST_SCREENSHOTS"):
        _IMAGES.mkdir(exist_ok=True)
        (_IMAGES / f"{name}-{scheme}.png").write_bytes(image)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_screenshots_are_complete(
    scheme: Any, open_page: OpenPage, admin_state: Any, samples: SampleData
) -> None:
    width, height = _SIZE
    page = await open_page(
        storage_state=admin_state,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
    )
    await take_screenshot(page, "/?span=7d", "overview", scheme)
    await take_screenshot(page, f"/jobs/{samples.completed}", "job", scheme)
    await take_screenshot(page, "/settings/webhooks/delivery-log", "delivery-log", scheme)
    pull = samples.address_of("/{org}/{full_name:path}/pulls/{number}")
    await take_screenshot(page, f"{pull}/files", "pull-request", scheme)
