"""What a cache above its limit drops, in which order, and what it never drops."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentjobs_runtime.files.cache import Cache, CacheItem, sort_by_last_use


@dataclass
class Entries:
    """A store in memory: name → (repository, size, last use). Items in use cannot be dropped."""

    spares: dict[str, tuple[str, int, int]]
    in_use: set[str] = field(default_factory=set)
    listed: int = 0

    async def items(self) -> Iterable[CacheItem]:
        self.listed += 1
        return [self._item(name, *about) for name, about in self.spares.items()]

    def _item(self, name: str, repo_id: str, size: int, used_at: int) -> CacheItem:
        async def drop() -> bool:
            if name in self.in_use:
                return False
            del self.spares[name]
            return True

        return CacheItem(repo_id, name, size, used_at, drop)


async def test_the_least_recently_used_repository_is_dropped_first_and_no_more_than_needed() -> (
    None
):
    templates = Entries({"t-old": ("old", 40, 1), "t-new": ("new", 40, 9)})
    mirrors = Entries({"m-old": ("old", 40, 2), "m-new": ("new", 40, 3)})
    await Cache([templates, mirrors], 130).trim()
    assert ({*templates.spares}, {*mirrors.spares}) == ({"t-new"}, {"m-old", "m-new"})
    await Cache([templates, mirrors], 80).trim()
    assert ({*templates.spares}, {*mirrors.spares}) == ({"t-new"}, {"m-new"})


async def test_the_mirror_of_a_repository_is_dropped_last() -> None:
    async def never() -> bool:
        return False

    spare, template, mirror = (
        CacheItem("r", name, 1, used_at, never)
        for name, used_at in (("spare", 9), ("template", 5), ("mirror", 1))
    )
    other = CacheItem("s", "other", 1, 7, never)
    ordered = sort_by_last_use([spare, template, mirror, other])
    assert [item.name for item in ordered] == ["other", "spare", "template", "mirror"]


async def test_items_in_use_are_dropped_only_after_use() -> None:
    entries = Entries({"huge": ("r", 1_000, 1), "small": ("s", 1, 2)}, in_use={"huge"})
    cache = Cache([entries], 100)
    cache.record_added(1_001)
    await cache.wait_until_idle()
    assert {*entries.spares} == {"huge"}
    entries.in_use.clear()
    cache.record_added(0)
    await cache.wait_until_idle()
    assert entries.spares == {}


async def test_a_cache_within_its_limit_is_not_measured_again() -> None:
    entries = Entries({"a": ("r", 10, 1)})
    cache = Cache([entries], 100)
    cache.record_added(0)
    await cache.wait_until_idle()
    for _ in range(8):
        cache.record_added(10)
    await cache.wait_until_idle()
    assert entries.listed == 1
    cache.record_added(20)
    await cache.wait_until_idle()
    assert entries.listed == 2


async def test_a_request_during_trimming_trims_again() -> None:
    entries = Entries({"a": ("r", 10, 1)})
    cache = Cache([entries], 100)
    for _ in range(5):
        cache.trim_soon()
    await asyncio.sleep(0)
    cache.trim_soon()
    await cache.wait_until_idle()
    assert 1 <= entries.listed <= 3


async def test_an_unlimited_cache_drops_nothing() -> None:
    entries = Entries({"a": ("r", 10**15, 1)})
    cache = Cache([entries], 0)
    cache.record_added(10**15)
    await cache.wait_until_idle()
    await cache.trim()
    assert (entries.spares != {}, entries.listed) == (True, 0)
