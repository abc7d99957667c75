"""The map of a repository: zoom, pan, emphasis and links, with the mouse and the keyboard."""

import re

from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.sample_data import SampleData
from tests.browser.service import REPO

_ADDRESS = f"/repos/{REPO}/graph"


def box(page: Page, name: str) -> Locator:
    return page.locator(".graph-wide .node", has_text=name)


async def size_of(element: Locator) -> tuple[float, float]:
    bounds = await element.bounding_box()
    assert bounds is not None
    return bounds["width"], bounds["height"]


async def test_a_map_is_zoomed_moved_and_fitted_again(admin: Page, samples: SampleData) -> None:
    await admin.goto(_ADDRESS)
    frame, drawing = admin.locator(".map .graph-frame"), admin.locator(".graph-wide")
    frame_size, natural = await size_of(frame), await size_of(drawing)
    for _ in range(6):
        await admin.get_by_role("button", name="Zoom in").click()
    zoomed = await size_of(drawing)
    assert zoomed > (5 * natural[0], 5 * natural[1])
    assert await size_of(frame) == frame_size, "the page keeps its layout"

    scroll = "(frame) => [frame.scrollLeft, frame.scrollTop]"
    left, top = await frame.evaluate(scroll)
    await frame.hover()
    await admin.mouse.down()
    bounds = await frame.bounding_box()
    assert bounds is not None
    x, y = bounds["x"] + bounds["width"] / 2, bounds["y"] + bounds["height"] / 2
    await admin.mouse.move(x - 60, y - 40, steps=6)
    await admin.mouse.up()
    assert await frame.evaluate(scroll) == [left + 60, top + 40]
    await expect(admin).to_have_url(re.compile(f"{_ADDRESS}$"))

    await admin.keyboard.press("-")
    assert await size_of(drawing) < zoomed
    await admin.keyboard.press("0")
    assert await size_of(drawing) == natural


async def test_a_box_shows_its_neighbors_and_opens_with_the_keyboard(
    admin: Page, samples: SampleData
) -> None:
    await admin.goto(_ADDRESS)
    is_on = re.compile(r"\bon\b")
    await box(admin, "prices.py").hover()
    await expect(box(admin, "cart.py")).to_have_class(is_on)
    await expect(box(admin, "PyPI")).not_to_have_class(is_on)
    await admin.get_by_label("Folder or module").fill("cart")
    await expect(box(admin, "cart.py")).to_have_class(is_on)
    await expect(box(admin, "prices.py")).not_to_have_class(is_on)
    await admin.goto(_ADDRESS)
    await box(admin, "cart.py").focus()
    await expect(box(admin, "bill.py")).to_have_class(is_on)
    await admin.keyboard.press("Enter")
    await expect(admin.get_by_role("heading", level=2).first).to_have_text("cart.py module")


async def test_without_javascript_boxes_are_links_and_there_are_no_dead_buttons(
    open_page: OpenPage, admin_state: object, samples: SampleData
) -> None:
    page = await open_page(storage_state=admin_state, java_script_enabled=False)
    await page.goto(_ADDRESS)
    await expect(page.get_by_role("button", name="Zoom in")).to_be_hidden()
    await page.get_by_text("Show as table").click()
    await expect(page.get_by_role("row", name=re.compile("^prices.py"))).to_be_visible()
    await box(page, "prices.py").click()
    await expect(page.get_by_role("heading", level=2).first).to_contain_text("prices.py")
