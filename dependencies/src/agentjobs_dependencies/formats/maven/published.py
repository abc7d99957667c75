"""Poms that are published in a registry: parents and BOMs outside of the repository.

Knows their coordinates, but neither the registry nor where they are cached.
"""

import re
from collections.abc import Callable

from agentjobs_dependencies.model import ParsedManifest

# More than any project has; each may have hundreds of entries.
MAX_POMS = 500
_COORDINATE = re.compile(r"[\w.-]{1,200}:[\w.-]{1,200}:[\w.+-]{1,100}")

# The prefix of their keys among the paths of a repository, which no path has.
_PREFIX = "\0"

LoadPom = Callable[[str], ParsedManifest | None]


class PublishedPoms:
    """`missing` are the coordinates (`group:artifact:version`) that `load` does not have."""

    def __init__(self, load: LoadPom = lambda _: None) -> None:
        self._load = load
        self._known: dict[str, ParsedManifest | None] = {}

    @property
    def missing(self) -> list[str]:
        return sorted(name for name, pom in self._known.items() if pom is None)

    def find(self, name: str, version: str) -> str | None:
        """The key of a pom, or None if it is missing or cannot be published."""
        coordinate = f"{name}:{version}"
        if not is_coordinate(coordinate):
            return None
        if coordinate not in self._known and len(self._known) < MAX_POMS:
            self._known[coordinate] = self._load(coordinate)
        return None if self._known.get(coordinate) is None else _PREFIX + coordinate

    def get(self, key: str) -> ParsedManifest | None:
        return self._known.get(key[1:]) if key.startswith(_PREFIX) else None


def is_coordinate(text: str) -> bool:
    """Snapshots change, and have other paths."""
    return _COORDINATE.fullmatch(text) is not None and not text.endswith("-SNAPSHOT")


def parse_coordinate(key: str) -> str:
    """Empty for a path of the repository."""
    return key[1:] if key.startswith(_PREFIX) else ""
