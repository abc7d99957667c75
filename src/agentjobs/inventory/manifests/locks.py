"""Collects what a lock file fixes: entries by their own key, and who requires whom.

Knows no ecosystem: keys are whatever the lock file calls its entries by.
"""

from collections.abc import Hashable, Iterable

from agentjobs.inventory.manifests.text import Warnings
from agentjobs.inventory.model import Locked, Scope

# No project has as many; a file that does was made to fill the memory.
MAX_PACKAGES = 100_000
MAX_VERSIONS = 50
MAX_TEXT = 256


class Lock:
    """Entries in the order they come. Keys that name the same package in the same version share
    a position: an ecosystem that installs a package twice still has it only once to judge."""

    def __init__(self, warnings: Warnings) -> None:
        self.warnings = warnings
        self._positions: dict[Hashable, int] = {}
        self._by_identity: dict[tuple[str, str], int] = {}
        self._by_name: dict[str, list[int]] = {}
        self._scopes: list[Scope] = []
        self._requires: list[dict[int, None]] = []

    def add(self, key: Hashable, name: object, version: object, scope: Scope = "runtime") -> None:
        if len(self._positions) >= MAX_PACKAGES:
            self.warnings.add(f"more than {MAX_PACKAGES} entries; the rest was left out")
            return
        if not _is_text(name) or not _is_text(version):
            shown = str(name)[:100]
            self.warnings.add(f"an entry without a usable name and version was left out: {shown!r}")
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
        """Every version of a package, as far as any project has them."""
        return tuple(self._by_name.get(name, ())[:MAX_VERSIONS])

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


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable()
