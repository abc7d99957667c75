"""Patterns over paths, as people know them from .gitignore, without negation and in any case.

A pattern without a slash matches a name at any depth, one with a slash starts at the root. `*`, `?`
and `[…]` stay within a name, `**` spans directories; what matches a directory matches all it holds.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Self

MOST_CHARACTERS = 300
MOST_NAMES = 32

Names = tuple[str, ...]

# Code points that HFS+ drops from names, so that `.g<U+200C>it` is `.git` there.
_IGNORED_IN_NAMES = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
_SPAN = "**"
_WILD = frozenset("*?[")


def folded(name: bytes) -> str:
    """A name as the most forgiving of file systems compares it, but for marks at its end."""
    return name.decode("utf-8", "replace").translate(_IGNORED_IN_NAMES).casefold()


def folded_names(path: bytes) -> Names:
    """The names a path is made of, fit for `Pattern`."""
    return tuple(_without_end_marks(folded(name)) for name in path.split(b"/"))


class Pattern:
    """Made by `Pattern.parse`, which raises ValueError with what is wrong."""

    def __init__(self, names: Names) -> None:
        self._steps = [None if name == _SPAN else _matcher(name) for name in names]
        self._spans = {at for at, name in enumerate(names) if name == _SPAN}
        wild = (at for at, name in enumerate(names) if _WILD.intersection(name))
        self._fixed = names[: next(wild, len(names))]

    @classmethod
    def parse(cls, text: str) -> Self:
        if fault := _fault_in(text):
            raise ValueError(f"{text!r} is no pattern: {fault}")
        names = [_folded_pattern(name) for name in text.strip("/").split("/")]
        if "/" not in text.rstrip("/"):
            names.insert(0, _SPAN)
        # Two spans in a row are one.
        names = [
            name for at, name in enumerate(names) if name != _SPAN or names[at - 1 : at] != [_SPAN]
        ]
        if names[-1] == _SPAN:
            # All a directory holds, and not the directory.
            names[-1] = "*"
        if text.endswith("/"):
            names.append("*")
        return cls(tuple(names))

    def matches(self, path: Names) -> bool:
        """Whether it matches the path or a directory the path is in."""
        if path[: len(self._fixed)] != self._fixed:
            return False
        reached = self._beyond_spans({0})
        for name in path:
            reached = self._beyond_spans(self._after(reached, name))
            if len(self._steps) in reached:
                return True
        return False

    def matches_within(self, path: Names) -> bool:
        """Whether something that it matches would lie below the path, were that a directory.

        Tells only of what the names before the first wildcard say.
        """
        return len(path) < len(self._steps) and path == self._fixed[: len(path)]

    def _after(self, reached: set[int], name: str) -> set[int]:
        found = set()
        for at in reached:
            step = self._steps[at]
            if step is None:
                found.add(at)
            elif step(name):
                found.add(at + 1)
        return found

    def _beyond_spans(self, reached: set[int]) -> set[int]:
        return reached | {at + 1 for at in reached if at in self._spans}


def parse_patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Raises ValueError that names the first one which is no pattern."""
    return tuple(Pattern.parse(text) for text in texts)


def _fault_in(text: str) -> str:
    if not text.strip("/ ") or len(text) > MOST_CHARACTERS:
        return f"it must have 1 to {MOST_CHARACTERS} characters"
    if text.startswith("!"):
        return "it cannot be negated with !"
    if "\\" in text or not text.isprintable():
        return "it must be printable and without backslashes"
    names = text.strip("/").split("/")
    if len(names) > MOST_NAMES or any(name in {"", ".", ".."} for name in names):
        return "it must be a path inside the repository, without empty names, . and .."
    return ""


def _folded_pattern(name: str) -> str:
    plain = folded(name.encode("utf-8", "replace"))
    # Such a mark at the end of a wildcard has its meaning: `*.` is not `*`.
    return plain if _WILD.intersection(plain) else _without_end_marks(plain)


def _without_end_marks(name: str) -> str:
    """Windows drops them; a name made of nothing else stays what it is."""
    return name.rstrip(" .") or name


def _matcher(name: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(name)).match if _WILD.intersection(name) else name.__eq__
