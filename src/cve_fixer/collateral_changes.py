"""Sentences on packages that a package manager moved besides the one it was asked to."""

from collections.abc import Iterable

from cve_fixer.text import code, plain

_LISTED = 10

Versions = Iterable[tuple[str, str]]


def came_along(before: Versions, after: Versions, package: str) -> list[str]:
    old, new = set(before), set(after)
    sentences = []
    for word, moved in (("Came along", new - old), ("No longer needed", old - new)):
        names = sorted(
            f"{code(name)} {plain(version)}" for name, version in moved if name != package
        )
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        if names:
            sentences.append(f"{word}: {', '.join(names[:_LISTED])}{more}.")
    return sentences
