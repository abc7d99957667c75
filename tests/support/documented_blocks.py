"""The code blocks of the documentation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import PROJECT

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: str
    language: str
    text: str


def pages() -> list[Path]:
    return [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> Iterator[Block]:
    name = str(page.relative_to(PROJECT))
    for indent, language, text in _BLOCK.findall(page.read_text()):
        yield Block(name, language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))


def blocks_in(language: str) -> list[Block]:
    return [block for page in pages() for block in blocks_of(page) if block.language == language]
