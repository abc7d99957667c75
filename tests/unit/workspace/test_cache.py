"""What a cache that is too large gives up, in which order, and what it may never give up."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentjobs.workspace.cache import Cache, Item, in_order_of_use


@dataclass
class Things:
    """A shelf in memory: name → (repository, size, last use); what is in use cannot be dropped."""

    kept: dict[str, tuple[str, int, int]]
    in_use: set[str] = field(default_factory=set)
    listed: int = 0

    async def items(self) -> Iterable[Item]:
        self.listed += 1
        return [self._item(name, *about) for name, about in self.kept.items()]

    def _item(self, name: str, repo_id: str, size: int, used_at: int) -> Item:
        async def drop() -> bool:
            if name in self.in_use:
                return False
            del self.kept[name]
            return True

        return Item(repo_id, name, size, used_at, drop)


async def test_the_repository_used_longest_ago_gives_first_and_no_more_than_needed() -> None:
    templates = Things({"t-old": ("old", 40, 1), "t-new": ("new", 40, 9)})
    mirrors = Things({"m-old": ("old", 40, 2), "m-new": ("new", 40, 3)})
    await Cache([templates, mirrors], 130).trim()
    assert ({*templates.kept}, {*mirrors.kept}) == ({"t-new"}, {"m-old", "m-new"})
    await Cache([templates, mirrors], 80).trim()
    assert ({*templates.kept}, {*mirrors.kept}) == ({"t-new"}, {"m-new"})


async def test_of_one_repository_the_mirror_goes_last() -> None:
    async def never() -> bool:
        return False

    spare, template, mirror = (
        Item("r", name, 1, used_at, never)
        for name, used_at in (("spare", 9), ("template", 5), ("mirror", 1))
    )
    other = Item("s", "other", 1, 7, never)
    ordered = in_order_of_use([spare, template, mirror, other])
    assert [item.name for item in ordered] == ["other", "spare", "template", "mirror"]


async def test_what_is_in_use_stays_and_goes_when_it_is_not() -> None:
    things = Things({"huge": ("r", 1_000, 1), "small": ("s", 1, 2)}, in_use={"huge"})
    cache = Cache([things], 100)
    cache.added(1_001)
    await cache.settle()
    assert {*things.kept} == {"huge"}
    things.in_use.clear()
    cache.added(0)
    await cache.settle()
    assert things.kept == {}


async def test_nothing_is_measured_again_while_there_is_room() -> None:
    things = Things({"a": ("r", 10, 1)})
    cache = Cache([things], 100)
    cache.added(0)
    await cache.settle()
    for _ in range(8):
        cache.added(10)
    await cache.settle()
    assert things.listed == 1
    cache.added(20)
    await cache.settle()
    assert things.listed == 2


async def test_asked_while_it_trims_it_looks_once_more() -> None:
    things = Things({"a": ("r", 10, 1)})
    cache = Cache([things], 100)
    for _ in range(5):
        cache.trim_soon()
    await asyncio.sleep(0)
    cache.trim_soon()
    await cache.settle()
    assert 1 <= things.listed <= 3


async def test_without_a_bound_nothing_is_dropped() -> None:
    things = Things({"a": ("r", 10**15, 1)})
    cache = Cache([things], 0)
    cache.added(10**15)
    await cache.settle()
    await cache.trim()
    assert (things.kept != {}, things.listed) == (True, 0)
