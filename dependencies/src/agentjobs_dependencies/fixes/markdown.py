"""Puts untrusted names and texts into Markdown without letting them become markup."""

import re
from collections.abc import Iterable

_MAX_CHARACTERS = 300
_MAX_LISTED = 10
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!@&])")

Versions = Iterable[tuple[str, str]]


def escape(text: str, max_characters: int = _MAX_CHARACTERS) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text, max_characters))


def code(name: str) -> str:
    return f"`{one_line(name).replace('`', '?')}`"


def one_line(text: str, max_characters: int = _MAX_CHARACTERS) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= max_characters else f"{line[:max_characters]}…"


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def collateral_changes(before: Versions, after: Versions, package: str) -> list[str]:
    old, new = set(before), set(after)
    sentences = []
    for label, changed in (("Also changed", new - old), ("No longer needed", old - new)):
        names = sorted(
            f"{code(name)} {escape(version)}" for name, version in changed if name != package
        )
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        if names:
            sentences.append(f"{label}: {', '.join(names[:_MAX_LISTED])}{more}.")
    return sentences
