"""Fetches version lists from registries, caches them for an hour and merges concurrent requests."""

import asyncio
import logging
from collections.abc import Callable

import aiohttp
from yarl import URL

from agentjobs.advisories.registries.request import RegistryUnreachable, fetch
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
        self._requests: dict[Key, asyncio.Task[Published]] = {}
        self._health = {ecosystem: _Health() for ecosystem in REGISTRY_APIS}

    async def fetch_published(self, ecosystem: str, name: str) -> Published:
        """All versions; empty if the registry does not have the package.

        Raises RegistryUnavailable.
        """
        key = (ecosystem, name)
        cached = self._cache.get(key)
        if cached is not None and self._now() - cached[0] < CACHE_MS:
            return cached[1]
        request = self._requests.get(key)
        if request is None:
            request = asyncio.create_task(self._fetch(ecosystem, name))
            self._requests[key] = request
            request.add_done_callback(lambda done: self._end(key, done))
        # Cancelling one caller must not cancel the request for the others.
        return await asyncio.shield(request)

    async def published_at(self, ecosystem: str, name: str, version: str) -> int | None:
        """When a version was published, if the list of versions has no times; None if unknown."""
        api = REGISTRY_APIS[ecosystem]
        if api.version_path_for is None:
            return None
        try:
            path = api.version_path_for(name, version)
            url = URL(self._settings.registry_url(ecosystem) + path, encoded=True)
            async with self._slots:
                response = await fetch(self._session, url, api.accept, _MAX_VERSION_BYTES)
            return None if response is None else api.read_time(response.body)
        except (InvalidPackageName, RegistryUnreachable, InvalidResponse) as error:
            logger.warning("registry request failed: %s %s: %s", name, version, error)
            return None

    async def fetch_pom(self, coordinate: str) -> bytes | None:
        """A published pom of Maven; None if the registry lacks it or cannot be asked."""
        health = self._health["Maven"]
        try:
            path = pom_path(coordinate)
            url = URL(self._settings.registry_url("Maven") + path, encoded=True)
            async with self._slots:
                health.check_available(self._now())
                response = await fetch(self._session, url, MAVEN.accept, _MAX_POM_BYTES)
            health.failures = 0
            return None if response is None else bytes(response.body)
        except RegistryUnreachable as error:
            health.fail(self._now(), str(error))
            logger.warning("registry request failed: %s: %s", coordinate, error)
        except (InvalidPackageName, InvalidResponse, RegistryUnavailable) as error:
            logger.warning("registry request failed: %s: %s", coordinate, error)
        return None

    async def close(self) -> None:
        """Cancel all requests."""
        requests = list(self._requests.values())
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    def _end(self, key: Key, done: asyncio.Task[Published]) -> None:
        del self._requests[key]
        if not done.cancelled() and done.exception() is None:
            published = done.result()
            self._cache.put(key, (self._now(), published), published.weight)

    async def _fetch(self, ecosystem: str, name: str) -> Published:
        api = REGISTRY_APIS.get(ecosystem)
        if api is None:
            raise RegistryUnavailable(f"{ecosystem} is not one of: {', '.join(REGISTRY_APIS)}")
        health = self._health[ecosystem]
        registry_url = self._settings.registry_url(ecosystem)
        try:
            url = URL(registry_url + api.path_for(name), encoded=True)
            async with self._slots:
                health.check_available(self._now())
                response = await fetch(self._session, url, api.accept, api.max_bytes)
                health.failures = 0
                if response is None:
                    return Published()
                # Parsing megabytes would block the event loop.
                return await asyncio.to_thread(
                    parse_response, ecosystem, name, response.content_type, response.body
                )
        except InvalidPackageName as error:
            raise RegistryUnavailable(str(error)) from None
        except (RegistryUnreachable, InvalidResponse) as error:
            message = _error_message(ecosystem, str(url), str(error))
            logger.warning("registry request failed: %s", message)
            if isinstance(error, RegistryUnreachable):
                health.fail(self._now(), message)
            raise RegistryUnavailable(message) from None


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


def _error_message(ecosystem: str, url: str, reason: str) -> str:
    """The message for a pull request, without a password that the URL may contain."""
    plain = URL(url, encoded=True).with_user(None)
    setting = f"AGENTJOBS_REGISTRY_{ECOSYSTEMS[ecosystem].upper()}_URL"
    return f"{plain}: {reason} ({setting} sets the {ecosystem} registry)"
