"""Checks of a page: errors that the browser reports, accessibility and layout.

axe-core checks accessibility; `make test` fetches it into `.npm-tests`.
"""

from dataclasses import dataclass, field
from typing import Self
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
_STYLES = """const stylesOf = () =>
  [...document.querySelectorAll("link[rel=stylesheet]")].map(({ href }) => href).join();"""
_READ = f"""() => {{
  {_STYLES}
  const {{ attributes }} = document.documentElement;
  return {{
    attributes: Array.from(attributes, ({{ name, value }}) => [name, value]),
    styles: stylesOf(),
    title: document.title,
    body: document.body.outerHTML,
  }};
}}"""
_SHOW = f"""({{ attributes, styles, title, body }}) => {{
  {_STYLES}
  if (stylesOf() !== styles) throw new Error(`The page has other styles: ${{styles}}`);
  const root = document.documentElement;
  for (const name of root.getAttributeNames()) root.removeAttribute(name);
  for (const [name, value] of attributes) root.setAttribute(name, value);
  document.title = title;
  document.body.outerHTML = body;
}}"""
# Sums up layout shifts that no input caused.
COUNT_SHIFTS = """
globalThis.shifted = 0;
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value;
}).observe({ type: "layout-shift", buffered: true });
"""
MAX_LAYOUT_SHIFT = 0.02
# 1264 px remain of 1280 px beside a scrollbar; 720 px is 1440 px at a zoom of 200 %.
WIDTHS = (360, 720, 1024, 2560, 1264)
HEIGHT = 800


_WIDTH = "() => document.documentElement.scrollWidth"
_CUT_TABLES = """() => [...document.querySelectorAll(".table")]
  .filter((table) => table.scrollWidth > table.clientWidth)
  .map((table) => table.querySelector("caption").textContent)"""
# The first cards of grids, if the cards after them change their left edge or their width.
_MOVED_CARDS = """() => [...document.querySelectorAll("main div.grid, main .tiles")]
  .filter(({ children: [first, ...later] }) => {
    const measure = () => `${first.offsetLeft} ${first.offsetWidth}`;
    const before = measure();
    for (const card of later) card.style.display = "none";
    const after = measure();
    for (const card of later) card.style.display = "";
    return before !== after;
  })
  .map(({ className }) => className)"""
# Blocks with less than 12 px to the block below.
_CLOSE_BLOCKS = """() => {
  const blocks = [...document.querySelectorAll(
    "main .card, main .table, main .empty, main .tiles, main section, main form.filters")]
    .map((element) => [element, element.getBoundingClientRect()]);
  const close = [];
  for (const [upper, { bottom, left, right, height }] of blocks) {
    for (const [lower, box] of blocks) {
      if (lower === upper || lower.contains(upper) || upper.contains(lower) || !height) continue;
      const isBelow = box.top >= bottom - 1 && box.left < right && box.right > left;
      if (isBelow && box.top - bottom < 12 && box.height) {
        close.push(`${upper.className || upper.tagName} ${lower.className || lower.tagName}`);
      }
    }
  }
  return close;
}"""
_MEASURE = f"() => [({_WIDTH})(), ({_CUT_TABLES})(), ({_MOVED_CARDS})(), ({_CLOSE_BLOCKS})()]"


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


class AccessibilityChecker:
    """Shows copies of pages in a page per colour scheme: these compile axe-core only once, which
    takes as long as checking a page."""

    def __init__(self, light: Page, dark: Page) -> None:
        self._light = light
        self._dark = dark

    @classmethod
    async def open(cls, context: BrowserContext, address: str) -> Self:
        """`address` is any page of the dashboard, for its styles."""
        pages = [await context.new_page() for _ in range(2)]
        for page in pages:
            await page.goto(address)
            # Evaluated, because the content security policy blocks other scripts.
            await page.evaluate(AXE.read_text() + "\n;null")
        await pages[1].emulate_media(color_scheme="dark")
        return cls(*pages)

    async def faults(self, page: Page) -> list[str]:
        content = await page.evaluate(_READ)
        await self._light.evaluate(_SHOW, content)
        faults: list[str] = await self._light.evaluate(_RUN_AXE, _TAGS)
        await self._dark.evaluate(_SHOW, content)
        rules = {"type": "rule", "values": _COLOUR_RULES}
        dark: list[str] = await self._dark.evaluate(_RUN_AXE, rules)
        return faults + [f"in the dark scheme: {fault}" for fault in dark]


async def layout_faults(page: Page) -> list[str]:
    """At each width: horizontal scrolling, a table that is cut off, cards that move while the page
    arrives, or blocks without a distance."""
    faults = []
    # Ends with the width at which pages are loaded.
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        needed, cut_tables, moved_cards, close_blocks = await page.evaluate(_MEASURE)
        if needed > width:
            faults.append(f"needs {needed} px where there are {width}")
        faults += [f"cuts {table} off at {width} px" for table in cut_tables]
        faults += [f"moves cards of {grid} at {width} px" for grid in moved_cards]
        faults += [f"has no distance between {pair} at {width} px" for pair in close_blocks]
    return faults


async def layout_shift(page: Page) -> float:
    shifted: float = await page.evaluate("shifted")
    return shifted
