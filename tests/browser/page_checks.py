"""Eyes on a page: whatever a browser finds wrong with it, and what a person would.

axe-core is the judge of accessibility; `make test` fetches it into `.npm-tests`.
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, Response

from tests.support.openid_provider import NPM_TESTS

AXE = NPM_TESTS / "node_modules" / "axe-core" / "axe.min.js"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The others do not look at colours.
_RULES_OF_COLOURS = ["color-contrast", "link-in-text-block"]
_JUDGE = """async (runOnly) => {
  const { violations } = await axe.run({ runOnly, resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`));
}"""
# A page that moved under somebody's finger says so here.
COUNT_SHIFTS = """
globalThis.shifted = 0;
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value;
}).observe({ type: "layout-shift", buffered: true });
"""
MOST_SHIFT = 0.02
# As wide as 1280 px leave beside a scrollbar, too.
WIDTHS = (360, 1264, 2560)


_CUT_TABLES = """() => [...document.querySelectorAll(".table")]
  .filter((table) => table.scrollWidth > table.clientWidth)
  .map((table) => table.querySelector("caption").textContent)"""


@dataclass
class PageMonitor:
    """What went wrong in a context, as sentences. `excused` is what a test brings about itself."""

    origins: frozenset[str]
    excused: tuple[str, ...] = ()
    seen: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._add(f"error on the page: {error.error}"))
        context.on("request", self._on_request)
        context.on("requestfailed", self._on_request_failed)
        context.on("response", self._on_response)

    def problems(self) -> list[str]:
        return [each for each in self.seen if not any(word in each for word in self.excused)]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._add(f"console {message.type}: {message.text} at {message.location}")

    def _on_request(self, request: Request) -> None:
        route = urlsplit(request.url)
        if route.scheme != "data" and f"{route.scheme}://{route.netloc}" not in self.origins:
            self._add(f"request to elsewhere: {request.url}")

    def _on_request_failed(self, request: Request) -> None:
        # Leaving a page ends its streams and whatever it was still loading.
        if request.failure != "net::ERR_ABORTED":
            self._add(f"failed request: {request.url} {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500:
            self._add(f"answer {response.status}: {response.url}")

    def _add(self, problem: str) -> None:
        self.seen.append(problem)


async def accessibility_faults(page: Page) -> list[str]:
    """In both colour schemes. By evaluation: the policy of the pages lets no foreign script in,
    and that is not lifted."""
    await page.evaluate(_axe())
    found: list[str] = await page.evaluate(_JUDGE, _TAGS)
    await page.emulate_media(color_scheme="dark")
    dark = await page.evaluate(_JUDGE, {"type": "rule", "values": _RULES_OF_COLOURS})
    await page.emulate_media(color_scheme="light")
    return found + [f"in the dark {fault}" for fault in dark]


async def overflowing_widths(page: Page) -> list[str]:
    """Where one would have to scroll sideways to read the page."""
    size: Any = page.viewport_size
    found = []
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        needed = await page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            found.append(f"needs {needed} px where there are {width}")
        found += [f"cuts {table} off at {width} px" for table in await page.evaluate(_CUT_TABLES)]
    await page.set_viewport_size(size)
    return found


async def layout_shift(page: Page) -> float:
    shifted: float = await page.evaluate("shifted")
    return shifted


_loaded: list[str] = []


def _axe() -> str:
    if not _loaded:
        _loaded.append(AXE.read_text() + "\n;null")
    return _loaded[0]
