"""Every registry, as one: asks, keeps answers for an hour, and never asks twice at the same time.

What to do with a list of versions is the caller's matter.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

import aiohttp
import msgspec
from yarl import URL

from agentjobs.advisories.registries.api import Body, InvalidPackageName, RegistryApi
from agentjobs.advisories.registries.crates import CRATES
from agentjobs.advisories.registries.golang import GO
from agentjobs.advisories.registries.maven import MAVEN
from agentjobs.advisories.registries.npm import NPM
from agentjobs.advisories.registries.packagist import PACKAGIST
from agentjobs.advisories.registries.pypi import PYPI
from agentjobs.advisories.registries.request import NoAnswer, ask
from agentjobs.advisories.registries.rubygems import RUBYGEMS
from agentjobs.advisories.registries.versions import (
    MAX_VERSIONS,
    InvalidResponse,
    Published,
    RegistryUnavailable,
    is_version,
)
from agentjobs.clock import elapsed_ms
from agentjobs.settings import Settings
from agentjobs.settings.registries import ECOSYSTEMS
from agentjobs.weighted_cache import WeightedCache

ASKED_AT_ONCE = 8
CACHE_MS = 3_600_000
# Some 30 MB at most: PyPI's lists have a hash for each file.
MAX_WEIGHT = 200_000
# A registry that gives no answer this often in a row is left alone for a while: else a scan of a
# thousand packages on a machine without a network would wait for each of them.
FAILURES_BEFORE_REST = 3
REST_MS = 60_000

REGISTRY_APIS: Mapping[str, RegistryApi] = {
    "PyPI": PYPI,
    "npm": NPM,
    "Go": GO,
    "crates.io": CRATES,
    "Maven": MAVEN,
    "RubyGems": RUBYGEMS,
    "Packagist": PACKAGIST,
}

logger = logging.getLogger(__name__)

Key = tuple[str, str]


class Registry:
    """`session` is a guarded one, and stays the caller's. `now` is in milliseconds."""

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        now: Callable[[], int] = elapsed_ms,
    ) -> None:
        self._settings = settings
        self._session = session
        self._now = now
        self._slots = asyncio.Semaphore(ASKED_AT_ONCE)
        # With the time of each response.
        self._cache: WeightedCache[Key, tuple[int, Published]] = WeightedCache(MAX_WEIGHT)
        self._under_way: dict[Key, asyncio.Task[Published]] = {}
        self._health = {ecosystem: _Health() for ecosystem in REGISTRY_APIS}

    async def published(self, ecosystem: str, name: str) -> Published:
        """All versions, none if the registry does not know the package.

        Raises RegistryUnavailable.
        """
        key = (ecosystem, name)
        cached = self._cache.get(key)
        if cached is not None and self._now() - cached[0] < CACHE_MS:
            return cached[1]
        asking = self._under_way.get(key)
        if asking is None:
            asking = asyncio.create_task(self._ask(ecosystem, name))
            self._under_way[key] = asking
            asking.add_done_callback(lambda done: self._end(key, done))
        # Whoever began it may give up without the others losing their answer.
        return await asyncio.shield(asking)

    async def close(self) -> None:
        """Gives up what is under way."""
        asking = list(self._under_way.values())
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _end(self, key: Key, done: asyncio.Task[Published]) -> None:
        del self._under_way[key]
        if not done.cancelled() and done.exception() is None:
            published = done.result()
            self._cache.put(key, (self._now(), published), published.weight)

    async def _ask(self, ecosystem: str, name: str) -> Published:
        dialect = REGISTRY_APIS.get(ecosystem)
        if dialect is None:
            raise RegistryUnavailable(f"{ecosystem} is none of: {', '.join(REGISTRY_APIS)}")
        health = self._health[ecosystem]
        address = self._settings.registry_url(ecosystem)
        try:
            url = URL(address + dialect.path_of(name), encoded=True)
            async with self._slots:
                health.refuse_while_resting(self._now())
                answer = await ask(self._session, url, dialect.accept, dialect.most_bytes)
                health.failures = 0
                if answer is None:
                    return Published()
                # A page of megabytes takes a while, and others want the loop.
                return await asyncio.to_thread(
                    parse_response, ecosystem, name, answer.content_type, answer.body
                )
        except InvalidPackageName as error:
            raise RegistryUnavailable(str(error)) from None
        except (NoAnswer, InvalidResponse) as error:
            told = _told(ecosystem, str(url), str(error))
            logger.warning("a registry could not be asked: %s", told)
            if isinstance(error, NoAnswer):
                health.fail(self._now(), told)
            raise RegistryUnavailable(told) from None


class _Health:
    """How one registry fared lately."""

    def __init__(self) -> None:
        self.failures = 0
        self._rests_until = 0
        self._reason = ""

    def fail(self, now: int, reason: str) -> None:
        self.failures += 1
        self._reason = reason
        if self.failures >= FAILURES_BEFORE_REST:
            self._rests_until = now + REST_MS

    def refuse_while_resting(self, now: int) -> None:
        if now < self._rests_until:
            raise RegistryUnavailable(self._reason)


def _told(ecosystem: str, address: str, reason: str) -> str:
    """In words for a pull request: without a password that the address may have in it."""
    plain = URL(address, encoded=True).with_user(None)
    setting = f"AGENTJOBS_REGISTRY_{ECOSYSTEMS[ecosystem].upper()}_URL"
    return f"{plain}: {reason} ({setting} says where {ecosystem} packages are published)"


def parse_response(ecosystem: str, name: str, content_type: str, body: Body) -> Published:
    """Without what cannot be a version; raises InvalidResponse."""
    found = REGISTRY_APIS[ecosystem].read(name, content_type, body)
    if len(found.versions) > MAX_VERSIONS:
        raise InvalidResponse(f"it lists {len(found.versions)} versions, more than any package has")
    usable = tuple(one for one in found.versions if is_version(one.version))
    return msgspec.structs.replace(found, versions=usable)
