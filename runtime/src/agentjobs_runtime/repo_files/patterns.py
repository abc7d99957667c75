"""Path patterns like those in .gitignore, without negation and case-insensitive.

A pattern without a slash matches a name at any depth, one with a slash starts at the root. `*`, `?`
and `[…]` stay within a name, `**` spans directories; a pattern that matches a directory matches
everything in it.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Self

MAX_CHARACTERS = 300
MAX_NAMES = 32

Names = tuple[str, ...]

# Code points that HFS+ ignores in names, so that `.g<U+200C>it` is `.git` there.
_IGNORED_IN_NAMES = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
_SPAN = "**"
_WILD = frozenset("*?[")
# Where the manifests of tests and examples are, unless `.agentjobs.toml` says otherwise.
DEFAULT_FIXTURES = ("**/tests/fixtures", "testdata", "examples")


def fold_name(name: bytes) -> str:
    """A name as the most lenient file system compares it, except for trailing characters."""
    return name.decode("utf-8", "replace").translate(_IGNORED_IN_NAMES).casefold()


def fold_path(path: bytes) -> Names:
    """The names of a path in the form that `Pattern` compares."""
    return tuple(_strip_trailing(fold_name(name)) for name in path.split(b"/"))


class Pattern:
    """Created by `Pattern.parse`, which raises ValueError with the reason."""

    def __init__(self, names: Names) -> None:
        self._steps = [None if name == _SPAN else _matcher(name) for name in names]
        self._spans = {position for position, name in enumerate(names) if name == _SPAN}
        wild = (position for position, name in enumerate(names) if _WILD.intersection(name))
        self._fixed = names[: next(wild, len(names))]

    @classmethod
    def parse(cls, text: str) -> Self:
        if fault := _find_fault(text):
            raise ValueError(f"{text!r} is not a pattern: {fault}")
        names = [_fold_pattern(name) for name in text.strip("/").split("/")]
        if "/" not in text.rstrip("/"):
            names.insert(0, _SPAN)
        # Two consecutive spans are one.
        names = [
            name
            for position, name in enumerate(names)
            if name != _SPAN or names[position - 1 : position] != [_SPAN]
        ]
        if names[-1] == _SPAN:
            # The contents of a directory, not the directory itself.
            names[-1] = "*"
        if text.endswith("/"):
            names.append("*")
        return cls(tuple(names))

    def matches(self, path: Names) -> bool:
        """Whether it matches the path or one of its parent directories."""
        if path[: len(self._fixed)] != self._fixed:
            return False
        positions = self._skip_spans({0})
        for name in path:
            positions = self._skip_spans(self._advance(positions, name))
            if len(self._steps) in positions:
                return True
        return False

    def matches_within(self, path: Names) -> bool:
        """Whether the path would contain matches if it were a directory.

        Only considers the names before the first wildcard.
        """
        return len(path) < len(self._steps) and path == self._fixed[: len(path)]

    def _advance(self, positions: set[int], name: str) -> set[int]:
        next_positions = set()
        for position in positions:
            step = self._steps[position]
            if step is None:
                next_positions.add(position)
            elif step(name):
                next_positions.add(position + 1)
        return next_positions

    def _skip_spans(self, positions: set[int]) -> set[int]:
        return positions | {position + 1 for position in positions if position in self._spans}


def parse_patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Raises ValueError that names the first invalid pattern."""
    return tuple(Pattern.parse(text) for text in texts)


def _find_fault(text: str) -> str:
    if not text.strip("/ ") or len(text) > MAX_CHARACTERS:
        return f"it must have 1 to {MAX_CHARACTERS} characters"
    if text.startswith("!"):
        return "it cannot be negated with !"
    if "\\" in text or not text.isprintable():
        return "it must be printable and without backslashes"
    names = text.strip("/").split("/")
    if len(names) > MAX_NAMES or any(name in {"", ".", ".."} for name in names):
        return "it must be a path inside the repository, without empty names, . and .."
    return ""


def _fold_pattern(name: str) -> str:
    plain = fold_name(name.encode("utf-8", "replace"))
    # After a wildcard, trailing characters are significant: `*.` is not `*`.
    return plain if _WILD.intersection(plain) else _strip_trailing(plain)


def _strip_trailing(name: str) -> str:
    """Windows drops them; a name of nothing else stays unchanged."""
    return name.rstrip(" .") or name


def _matcher(name: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(name)).match if _WILD.intersection(name) else name.__eq__
