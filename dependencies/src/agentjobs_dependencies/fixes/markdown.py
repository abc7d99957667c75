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


def describe_other_changes(before: Versions, after: Versions, package: str) -> list[str]:
    """A sentence about other packages that were added, removed or changed, if any."""
    old, new = _list_versions(before), _list_versions(after)
    changes = [
        f"{code(name)} {old.get(name, '(new)')} → {new.get(name, '(removed)')}"
        for name in sorted(old.keys() | new.keys())
        if name != package and old.get(name) != new.get(name)
    ]
    more = f" and {len(changes) - _MAX_LISTED} more" if len(changes) > _MAX_LISTED else ""
    return [f"Also changed: {', '.join(changes[:_MAX_LISTED])}{more}."] if changes else []


def _list_versions(packages: Versions) -> dict[str, str]:
    versions: dict[str, set[str]] = {}
    for name, version in packages:
        versions.setdefault(name, set()).add(version)
    return {name: escape(", ".join(sorted(known))) for name, known in versions.items()}
