"""Pieces of Markdown pages."""

import re
from collections.abc import Mapping
from textwrap import indent


def code_block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def tabs(blocks: Mapping[str, tuple[str, str]]) -> str:
    """Tabs by their labels, each with a language and a text."""
    parts = (
        f'=== "{label}"\n\n{indent(code_block(language, text), "    ")}'
        for label, (language, text) in blocks.items()
    )
    return "\n\n".join(parts)


def details(title: str, text: str) -> str:
    """A section that is closed at first."""
    return f'??? example "{title}"\n\n{indent(text, "    ")}'


def cell(text: str) -> str:
    """Text in a cell of a table: one line, in which a bar and a tag are text outside of code."""
    pieces = " ".join(text.split()).split("`")
    for index, piece in enumerate(pieces):
        escaped = piece.replace("|", "\\|")
        pieces[index] = escaped if index % 2 else escaped.replace("<", "&lt;")
    return "`".join(pieces)


def in_code(text: str) -> str:
    """Code in a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def slug(heading: str) -> str:
    """The anchor of a heading, as the site generator makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
