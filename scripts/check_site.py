"""Checks the built site: no page loads a file of another host, or one that is missing."""

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


class Loads(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._in_style = tag == "style"
        if tag == "link" and attributes.get("rel") in NAMED:
            return
        for name in LOADED.get(tag, ()):
            value = attributes.get(name) or ""
            candidates = value.split(",") if name == "srcset" else [value]
            self.addresses += [each.split()[0] for each in candidates if each.strip()]
        self.addresses += _CSS_URL.findall(attributes.get("style") or "")

    def handle_endtag(self, _tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.addresses += _CSS_URL.findall(data)


def faults_in(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".css", ".svg"):
            continue
        for address in addresses_in(path):
            fault = _fault(site, path, address)
            if fault:
                yield f"{path.relative_to(site)}: {fault}: {address}"


def addresses_in(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return _CSS_URL.findall(text)
    loads = Loads()
    loads.feed(text)
    return loads.addresses


def _fault(site: Path, page: Path, address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme == "data" or not parts.path:
        return None
    if parts.scheme or parts.netloc:
        return "loads from another host"
    base = site if parts.path.startswith("/") else page.parent
    is_there = (base / unquote(parts.path).lstrip("/")).exists()
    return None if is_there else "loads a file that does not exist"


def main(site: str) -> None:
    pages = len(list(Path(site).rglob("*.html")))
    faults = list(faults_in(Path(site)))
    if faults or not pages:
        sys.exit("\n".join(faults) or f"{site} has no pages; run `make docs`")
    print(f"Documentation site: {pages} pages in {site}/, nothing is loaded from other hosts.")


if __name__ == "__main__":
    main(sys.argv[1])
