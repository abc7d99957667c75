"""Published poms in the cache of analyses: parents and BOMs that were fetched from a registry."""

import hashlib
from collections.abc import Mapping

from agentjobs.inventory.index.analysis import BlobAnalysis, classify
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.model import ParsedManifest


class PomCache:
    """`registry` is the address of the registry, without credentials."""

    def __init__(self, cache: AnalysisCache, registry: str) -> None:
        self._cache = cache
        self._registry = registry

    def load(self, coordinate: str) -> ParsedManifest | None:
        key = self._key(coordinate)
        analysis = self._cache.get([key]).get(key)
        return None if analysis is None else analysis.manifest

    def store(self, poms: Mapping[str, ParsedManifest]) -> None:
        self._cache.put(
            {self._key(name): BlobAnalysis(None, manifest=pom) for name, pom in poms.items()}
        )

    def _key(self, coordinate: str) -> bytes:
        name = f"{self._registry}\0{coordinate}".encode()
        # The analyzer's key has the version of the reader.
        return hashlib.sha256(name).digest() + classify(b"pom.xml", "pom.xml").analyzer.key
