"""Collects the packages of a lock file and their requirements, for readers of all ecosystems.

Keys are whatever the lock file identifies its entries by.
"""

from collections.abc import Hashable, Iterable, Iterator

from agentjobs_dependencies.formats.text import Warnings
from agentjobs_dependencies.model import Locked, Scope

# More than any project has; limits the memory that a hostile file can take.
MAX_PACKAGES = 100_000
MAX_VERSIONS = 50
MAX_TEXT = 256


class Lock:
    """Entries in the order of the file. Keys for the same version of a package share a position,
    so a package that is installed twice is listed once."""

    def __init__(self, warnings: Warnings) -> None:
        self.warnings = warnings
        self._positions: dict[Hashable, int] = {}
        self._by_identity: dict[tuple[str, str], int] = {}
        self._by_name: dict[str, list[int]] = {}
        self._scopes: list[Scope] = []
        self._requires: list[dict[int, None]] = []

    def add(self, key: Hashable, name: object, version: object, scope: Scope = "runtime") -> None:
        if len(self._positions) >= MAX_PACKAGES:
            self.warnings.add(f"more than {MAX_PACKAGES} entries; the rest is left out")
            return
        if not is_text(name) or not is_text(version):
            text = str(name)[:100]
            self.warnings.add(f"an entry with an invalid name or version is left out: {text!r}")
            return
        identity = (str(name), str(version))
        position = self._by_identity.get(identity)
        if position is None:
            position = self._by_identity[identity] = len(self._scopes)
            self._by_name.setdefault(identity[0], []).append(position)
            self._scopes.append(scope)
            self._requires.append({})
        elif scope == "runtime":
            self._scopes[position] = scope
        self._positions[key] = position

    def position(self, key: Hashable) -> int | None:
        return self._positions.get(key)

    def named(self, name: str) -> tuple[int, ...]:
        """The positions of all versions of a package, up to MAX_VERSIONS."""
        return tuple(self._by_name.get(name, ())[:MAX_VERSIONS])

    def all_named(self, names: Iterable[str]) -> Iterator[int]:
        return (position for name in names for position in self.named(name))

    def require(self, key: Hashable, positions: Iterable[int]) -> None:
        position = self._positions.get(key)
        if position is not None:
            self._requires[position].update(dict.fromkeys(positions))

    def require_by(self, parents: Iterable[int], position: int) -> None:
        for parent in parents:
            self._requires[parent][position] = None

    def packages(self) -> tuple[Locked, ...]:
        return tuple(
            Locked(name, version, tuple(self._requires[position]), self._scopes[position])
            for (name, version), position in self._by_identity.items()
        )


def is_text(value: object) -> bool:
    """Whether it can be a name or a version."""
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable()
