"""Fetches version lists from registries, and caches them for an hour."""

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakValueDictionary

import aiohttp
from yarl import URL

from agentjobs.advisories.registries.request import RegistryResponse, RegistryUnreachable, fetch
from agentjobs_dependencies.registries.all_registries import REGISTRY_APIS, parse_response
from agentjobs_dependencies.registries.api import InvalidPackageName
from agentjobs_dependencies.registries.maven import MAVEN, pom_path
from agentjobs_dependencies.registries.versions import (
    InvalidResponse,
    Published,
    RegistryUnavailable,
)
from agentjobs_runtime.clock import elapsed_ms
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.registries import ECOSYSTEMS
from agentjobs_runtime.weighted_cache import WeightedCache

MAX_CONCURRENT = 8
_MAX_VERSION_BYTES = 1024 * 1024
_MAX_POM_BYTES = 2 * 1024 * 1024
CACHE_MS = 3_600_000
# About 30 MB at most, because PyPI's lists have a hash for each file.
MAX_WEIGHT = 200_000
# After this many consecutive failures, a registry is not contacted for a while. Otherwise a scan of
# a thousand packages without a network would wait for each of them.
MAX_FAILURES = 3
COOLDOWN_MS = 60_000

logger = logging.getLogger(__name__)

Key = tuple[str, str]


class Registry:
    """`session` must be guarded; the caller closes it. `now` is in milliseconds."""

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        now: Callable[[], int] = elapsed_ms,
    ) -> None:
        self._settings = settings
        self._session = session
        self._now = now
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        # With the time of each response.
        self._cache: WeightedCache[Key, tuple[int, Published]] = WeightedCache(MAX_WEIGHT)
        # One for each list that somebody waits for.
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._health = {ecosystem: _Health() for ecosystem in REGISTRY_APIS}

    async def fetch_published(self, ecosystem: str, name: str) -> Published:
        """All versions; empty if the registry does not have the package.

        Raises RegistryUnavailable.
        """
        key = (ecosystem, name)
        async with self._locks.setdefault(key, asyncio.Lock()):
            cached = self._cache.get(key)
            if cached is not None and self._now() - cached[0] < CACHE_MS:
                return cached[1]
            published = await self._fetch(ecosystem, name)
            self._cache.put(key, (self._now(), published), published.weight)
            return published

    async def published_at(self, ecosystem: str, name: str, version: str) -> int | None:
        """When a version was published, if the list of versions has no times; None if unknown."""
        api = REGISTRY_APIS[ecosystem]
        if api.version_path_for is None:
            return None
        try:
            path = api.version_path_for(name, version)
            response = await self._get(ecosystem, path, api.accept, _MAX_VERSION_BYTES)
            return None if response is None else api.read_time(response.body)
        except (InvalidPackageName, InvalidResponse, RegistryUnavailable):
            return None

    async def fetch_pom(self, coordinate: str) -> bytes | None:
        """A published pom of Maven; None if the registry lacks it or cannot be asked."""
        try:
            path = pom_path(coordinate)
            response = await self._get("Maven", path, MAVEN.accept, _MAX_POM_BYTES)
        except (InvalidPackageName, RegistryUnavailable):
            return None
        return None if response is None else bytes(response.body)

    async def _fetch(self, ecosystem: str, name: str) -> Published:
        api = REGISTRY_APIS.get(ecosystem)
        if api is None:
            raise RegistryUnavailable(f"{ecosystem} is not one of: {', '.join(REGISTRY_APIS)}")
        try:
            path = api.path_for(name)
        except InvalidPackageName as error:
            raise RegistryUnavailable(str(error)) from None
        response = await self._get(ecosystem, path, api.accept, api.max_bytes)
        if response is None:
            return Published()
        try:
            # Parsing megabytes would block the event loop.
            return await asyncio.to_thread(
                parse_response, ecosystem, name, response.content_type, response.body
            )
        except InvalidResponse as error:
            raise self._unavailable(ecosystem, path, error) from None

    async def _get(
        self, ecosystem: str, path: str, accept: str, max_bytes: int
    ) -> RegistryResponse | None:
        """None if the registry does not have it. Raises RegistryUnavailable."""
        health = self._health[ecosystem]
        url = URL(self._settings.registry_url(ecosystem) + path, encoded=True)
        async with self._slots:
            health.check_available(self._now())
            try:
                response = await fetch(self._session, url, accept, max_bytes)
            except InvalidResponse as error:
                raise self._unavailable(ecosystem, path, error) from None
            except RegistryUnreachable as error:
                unavailable = self._unavailable(ecosystem, path, error)
                health.fail(self._now(), str(unavailable))
                raise unavailable from None
        health.failures = 0
        return response

    def _unavailable(self, ecosystem: str, path: str, error: Exception) -> RegistryUnavailable:
        """With a message for a pull request, without a password that the URL may contain."""
        url = URL(self._settings.registry_url(ecosystem) + path, encoded=True).with_user(None)
        setting = f"AGENTJOBS_REGISTRY_{ECOSYSTEMS[ecosystem].upper()}_URL"
        message = f"{url}: {error} ({setting} sets the {ecosystem} registry)"
        logger.warning("registry request failed: %s", message)
        return RegistryUnavailable(message)


class _Health:
    """Recent failures of one registry."""

    def __init__(self) -> None:
        self.failures = 0
        self._unavailable_until = 0
        self._reason = ""

    def fail(self, now: int, reason: str) -> None:
        self.failures += 1
        self._reason = reason
        if self.failures >= MAX_FAILURES:
            self._unavailable_until = now + COOLDOWN_MS

    def check_available(self, now: int) -> None:
        if now < self._unavailable_until:
            raise RegistryUnavailable(self._reason)
