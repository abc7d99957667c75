"""A least-recently-used cache, bounded by the total weight of its values. Thread-safe."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WeightedCache(Generic[K, V]):
    """Callers choose the unit of weight. A value above `max_value_weight` is not stored."""

    def __init__(self, max_weight: int, max_value_weight: int | None = None) -> None:
        self.weight = 0
        self._max_weight = max_weight
        self._max_value_weight = max_weight if max_value_weight is None else max_value_weight
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Replaces an earlier value of the key."""
        with self._lock:
            self._remove(key)
            if weight > self._max_value_weight:
                return
            self._entries[key] = (value, weight)
            self.weight += weight
            while self.weight > self._max_weight:
                self._remove(next(iter(self._entries)))

    def _remove(self, key: K) -> None:
        if key in self._entries:
            self.weight -= self._entries.pop(key)[1]
