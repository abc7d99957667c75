"""Checks of a page: errors that the browser reports, accessibility and layout.

axe-core checks accessibility; `make test` fetches it into `.npm-tests`.
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, Response

from tests.support.openid_provider import NPM_TESTS

AXE = NPM_TESTS / "node_modules" / "axe-core" / "axe.min.js"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The only rules that depend on colours.
_COLOUR_RULES = ["color-contrast", "link-in-text-block"]
_RUN_AXE = """async (runOnly) => {
  const { violations } = await axe.run({ runOnly, resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`));
}"""
# Sums up layout shifts that no input caused.
COUNT_SHIFTS = """
globalThis.shifted = 0;
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value;
}).observe({ type: "layout-shift", buffered: true });
"""
MAX_LAYOUT_SHIFT = 0.02
# 1264 px remain of 1280 px beside a scrollbar.
WIDTHS = (360, 1264, 2560)


_CUT_TABLES = """() => [...document.querySelectorAll(".table")]
  .filter((table) => table.scrollWidth > table.clientWidth)
  .map((table) => table.querySelector("caption").textContent)"""


@dataclass
class PageMonitor:
    """The errors in a browser context. `expected_errors` are texts of errors that a test causes."""

    origins: frozenset[str]
    expected_errors: tuple[str, ...] = ()
    errors: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._add(f"error on the page: {error.error}"))
        context.on("request", self._on_request)
        context.on("requestfailed", self._on_request_failed)
        context.on("response", self._on_response)

    def problems(self) -> list[str]:
        return [
            error
            for error in self.errors
            if not any(text in error for text in self.expected_errors)
        ]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._add(f"console {message.type}: {message.text} at {message.location}")

    def _on_request(self, request: Request) -> None:
        route = urlsplit(request.url)
        if route.scheme != "data" and f"{route.scheme}://{route.netloc}" not in self.origins:
            self._add(f"request to another origin: {request.url}")

    def _on_request_failed(self, request: Request) -> None:
        # Leaving a page aborts its streams and pending requests.
        if request.failure != "net::ERR_ABORTED":
            self._add(f"failed request: {request.url} {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500:
            self._add(f"response {response.status}: {response.url}")

    def _add(self, problem: str) -> None:
        self.errors.append(problem)


async def accessibility_faults(page: Page) -> list[str]:
    """In both colour schemes. The script is evaluated because the pages' content security policy
    blocks other scripts."""
    await page.evaluate(_axe())
    faults: list[str] = await page.evaluate(_RUN_AXE, _TAGS)
    await page.emulate_media(color_scheme="dark")
    dark = await page.evaluate(_RUN_AXE, {"type": "rule", "values": _COLOUR_RULES})
    await page.emulate_media(color_scheme="light")
    return faults + [f"in the dark scheme: {fault}" for fault in dark]


async def overflowing_widths(page: Page) -> list[str]:
    """Widths at which the page needs horizontal scrolling or cuts off a table."""
    size: Any = page.viewport_size
    faults = []
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        needed = await page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            faults.append(f"needs {needed} px where there are {width}")
        faults += [f"cuts {table} off at {width} px" for table in await page.evaluate(_CUT_TABLES)]
    await page.set_viewport_size(size)
    return faults


async def layout_shift(page: Page) -> float:
    shifted: float = await page.evaluate("shifted")
    return shifted


_loaded: list[str] = []


def _axe() -> str:
    if not _loaded:
        _loaded.append(AXE.read_text() + "\n;null")
    return _loaded[0]
