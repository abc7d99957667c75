"""Which snapshots and images are removed when the cache is full."""

from agentjobs_runtime.environments.images.model import CachedItem
from agentjobs_worker.environments.cache import choose_evictions


def item(name: str, size: int, used_at: int, *owners: str) -> CachedItem:
    return CachedItem("snapshot", name, frozenset(owners), size, used_at)


def names(items: list[CachedItem]) -> list[str]:
    return [item.name for item in items]


def test_nothing_is_removed_within_the_limit() -> None:
    assert choose_evictions([item("a", 50, 1, "x"), item("b", 50, 2, "y")], 100) == []


def test_the_least_recently_used_goes_first() -> None:
    items = [item("new", 50, 9, "x"), item("old", 50, 1, "x"), item("older", 10, 0, "x")]
    assert names(choose_evictions(items, 60)) == ["older", "old"]


def test_an_organization_within_its_share_loses_nothing_to_a_larger_one() -> None:
    items = [
        item("small", 20, 0, "small"),
        *(item(f"large{number}", 30, number + 1, "large") for number in range(4)),
    ]
    assert names(choose_evictions(items, 100)) == ["large0", "large1"]


def test_a_shared_image_counts_in_parts() -> None:
    items = [item("image", 80, 5, "x", "y"), item("mine", 50, 1, "x")]
    assert names(choose_evictions(items, 100)) == ["mine"]


def test_an_image_that_no_organization_uses_costs_none_its_own() -> None:
    items = [item("mine", 50, 1, "x"), item("left", 60, 5), item("other", 40, 2, "y")]
    assert names(choose_evictions(items, 100)) == ["left"]
