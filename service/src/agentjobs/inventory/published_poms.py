"""Fetches parents and BOMs of Maven projects from the registry into a cache.

The index process has no network: it says which poms it lacks, and finds them there the next time.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agentjobs.inventory.index.pom_cache import PomCache
from agentjobs_dependencies import formats
from agentjobs_dependencies.formats.maven.inheritance import find_missing_poms
from agentjobs_dependencies.formats.maven.published import MAX_POMS
from agentjobs_runtime.clock import elapsed_ms
from agentjobs_runtime.weighted_cache import WeightedCache

# An index waits for them, so it continues without those that take longer.
_FETCH_SECONDS = 30
# A registry that lacks a pom, or does not respond, is asked again after this time.
_ABSENT_MS = 15 * 60_000
_MAX_ABSENT = 20_000


class PomRegistry(Protocol):
    async def fetch_pom(self, coordinate: str) -> bytes | None:
        """`group:artifact:version`. None if the registry lacks it or cannot be asked."""


class PomFetcher:
    """One per process. `address` is the registry's, without credentials."""

    def __init__(self, registry: PomRegistry, address: str, cache_path: Path) -> None:
        self._registry = registry
        self._cache = PomCache(cache_path, address)
        self._absent: WeightedCache[str, int] = WeightedCache(_MAX_ABSENT)

    async def fetch_missing(self, coordinates: Collection[str]) -> bool:
        """Fetch them, their parents and BOMs. Returns whether the cache has more poms now."""
        stored: list[str] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FETCH_SECONDS):
                await self._fetch(coordinates, stored)
        return bool(stored)

    async def _fetch(self, coordinates: Collection[str], stored: list[str]) -> None:
        requested: set[str] = set()
        while batch := [
            name for name in coordinates if name not in requested and not self._is_absent(name)
        ][: MAX_POMS - len(requested)]:
            requested.update(batch)
            contents = await asyncio.gather(*map(self._registry.fetch_pom, batch))
            present = {}
            for name, content in zip(batch, contents, strict=True):
                if content is None:
                    self._absent.put(name, elapsed_ms())
                else:
                    present[name] = content
            # Parsing would block the event loop.
            coordinates = await asyncio.to_thread(self._store, present)
            stored += present

    def _is_absent(self, coordinate: str) -> bool:
        since = self._absent.get(coordinate)
        return since is not None and elapsed_ms() - since < _ABSENT_MS

    def _store(self, contents: Mapping[str, bytes]) -> Sequence[str]:
        """Returns the parents and BOMs that the cache lacks."""
        poms = {name: formats.read("pom.xml", content) for name, content in contents.items()}
        self._cache.store(poms)
        return find_missing_poms(poms, self._cache.load)
