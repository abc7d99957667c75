"""Asks the registry, if it can be asked, and chooses."""

import asyncio
from collections.abc import Sequence

from agentjobs.advisories.model import Advisory
from agentjobs.advisories.registries.registry import Registry
from agentjobs.advisories.registries.versions import RegistryUnavailable
from agentjobs.advisories.version_choice import Choice, choose_version


class Chooser:
    """Many may ask at once, also for the same package: the registry is asked once an hour."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def choose(
        self, ecosystem: str, name: str, version: str, advisories: Sequence[Advisory]
    ) -> Choice:
        """`advisories` are all that are known of the package, not only those of this version."""
        try:
            published = await self._registry.published(ecosystem, name)
        except RegistryUnavailable:
            # Told in the log already. What the advisories call fixed is better than nothing.
            published = None
        # A package with hundreds of advisories and versions takes a while.
        return await asyncio.to_thread(
            choose_version, ecosystem, name, version, advisories, published
        )
