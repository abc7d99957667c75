"""Names and texts of strangers as parts of Markdown: none of it may become markup."""

import re

_MOST_CHARACTERS = 300
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!@&])")


def plain(words: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(words))


def code(name: str) -> str:
    return f"`{one_line(name).replace('`', '?')}`"


def one_line(words: str) -> str:
    line = " ".join(printable(words).split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def printable(words: str) -> str:
    return "".join(c if c.isprintable() else " " for c in words)
