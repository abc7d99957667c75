"""Checks the built site: pages load only files that it has, and show no Markdown as text."""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself; the target of a link is loaded only by a click.
LOADED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href",),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href",),
    "video": ("src", "poster"),
}
# Links in the head that only name another page.
NAMED = frozenset({"alternate", "canonical", "next", "prev"})
_CSS_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")
# Markdown that a paragraph shows as text.
_LIST_AS_TEXT = re.compile(r"^(?:- |1\. )|```", re.MULTILINE)


class PageReader(HTMLParser):
    """The addresses that a page loads, and the texts of its paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.paragraphs: list[str] = []
        self._in_style = False
        self._in_paragraph = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._in_style = tag == "style"
        if tag == "p":
            self.paragraphs.append("")
            self._in_paragraph = True
        if tag == "link" and attributes.get("rel") in NAMED:
            return
        for name in LOADED.get(tag, ()):
            value = attributes.get(name) or ""
            candidates = value.split(",") if name == "srcset" else [value]
            self.addresses += [each.split()[0] for each in candidates if each.strip()]
        self.addresses += _CSS_URL.findall(attributes.get("style") or "")

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False
        self._in_paragraph = self._in_paragraph and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._in_paragraph:
            self.paragraphs[-1] += data
        if self._in_style:
            self.addresses += _CSS_URL.findall(data)


def faults_in(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".css", ".svg"):
            continue
        page = read_page(path)
        faults = [_fault(site, path, address) for address in page.addresses]
        faults += [
            f"shows a list as text: {text[:80]!r}"
            for text in page.paragraphs
            if _LIST_AS_TEXT.search(text)
        ]
        yield from (f"{path.relative_to(site)}: {fault}" for fault in faults if fault)


def read_page(path: Path) -> PageReader:
    text = path.read_text(encoding="utf-8")
    page = PageReader()
    if path.suffix == ".css":
        page.addresses = _CSS_URL.findall(text)
    else:
        page.feed(text)
    return page


def _fault(site: Path, page: Path, address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme == "data" or not parts.path:
        return None
    if parts.scheme or parts.netloc:
        return f"loads from another host: {address}"
    base = site if parts.path.startswith("/") else page.parent
    is_there = (base / unquote(parts.path).lstrip("/")).exists()
    return None if is_there else f"loads a file that does not exist: {address}"


def main(site: str) -> None:
    pages = len(list(Path(site).rglob("*.html")))
    faults = list(faults_in(Path(site)))
    if faults or not pages:
        sys.exit("\n".join(faults) or f"{site} has no pages; run `make docs`")
    print(f"Documentation site: {pages} pages in {site}/, nothing is loaded from other hosts.")


if __name__ == "__main__":
    main(sys.argv[1])
