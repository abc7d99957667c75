"""The bounded cache that pages, jobs and registries share."""

from agentjobs_runtime.weighted_cache import WeightedCache


def test_the_least_recently_used_values_are_dropped_first() -> None:
    cache: WeightedCache[str, int] = WeightedCache(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get("a") == 0
    cache.put("d", 3)
    assert [cache.get(key) for key in "abcd"] == [0, None, 2, 3]


def test_a_heavy_value_drops_as_many_others_as_needed() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10)
    cache.put("a", "a", 4)
    cache.put("b", "b", 4)
    cache.put("c", "c", 7)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, None, "c")
    assert cache.weight == 7


def test_a_value_replaces_the_earlier_one_and_its_weight() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10)
    cache.put("a", "old", 8)
    cache.put("a", "new", 3)
    assert (cache.get("a"), cache.weight) == ("new", 3)


def test_a_value_above_its_limit_is_not_stored() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10, max_value_weight=5)
    cache.put("a", "a", 5)
    cache.put("b", "b", 6)
    cache.put("a", "too heavy", 6)
    assert (cache.get("a"), cache.get("b"), cache.weight) == (None, None, 0)
