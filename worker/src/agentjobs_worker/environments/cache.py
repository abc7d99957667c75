"""Keeps snapshots and images within a number of bytes, shared fairly between organizations."""

import logging
from collections import Counter
from collections.abc import Sequence

from agentjobs_runtime.environments.images.model import CachedItem
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.environments.build_task import BuildTools
from agentjobs_worker.environments.snapshots import StoredSnapshot

_log = logging.getLogger(__name__)


def choose_evictions(items: Sequence[CachedItem], max_bytes: int) -> list[CachedItem]:
    """The least recently used items of organizations that use more than their share.

    Only an organization above its share loses anything, so none can evict what others use. An
    image that no organization uses, after a crash or an update, counts as theirs.
    """
    remaining = sorted(items, key=lambda item: item.used_at_ns)
    total = sum(item.size_bytes for item in items)
    evicted = []
    while remaining and total > max_bytes:
        used = _used_bytes(remaining)
        share = max_bytes / max(len(used), 1)
        above = [name for name, size in used.items() if size > share]
        item = next(
            (
                item
                for item in remaining
                if not item.organization_ids or item.organization_ids.intersection(above)
            ),
            remaining[0],
        )
        remaining.remove(item)
        evicted.append(item)
        total -= item.size_bytes
    return evicted


async def trim_cache(tools: BuildTools, max_bytes: int) -> list[str]:
    """The IDs of the builds whose snapshots were removed. Raises OSError."""
    stored = {item.snapshot.build_id: item for item in tools.snapshots.all()}
    items = [
        *map(_snapshot_item, stored.values()),
        *await tools.images.images(),
        *await tools.images.layers(),
    ]
    removed = []
    for item in choose_evictions(items, max_bytes):
        if await _remove(tools, item, stored):
            _log.info(
                "removed %s %s from the cache: %d bytes", item.kind, item.name, item.size_bytes
            )
            if item.kind == "snapshot":
                removed.append(item.name)
    return removed


async def _remove(tools: BuildTools, item: CachedItem, stored: dict[str, StoredSnapshot]) -> bool:
    if item.kind == "snapshot":
        return await run_in_thread(tools.snapshots.remove, stored[item.name])
    if item.kind == "image":
        return await tools.images.remove(item.name)
    return await tools.images.remove_layers(item.name)


def _snapshot_item(stored: StoredSnapshot) -> CachedItem:
    snapshot = stored.snapshot
    owner = frozenset({snapshot.organization_id})
    return CachedItem("snapshot", snapshot.build_id, owner, snapshot.size_bytes, stored.used_at_ns)


def _used_bytes(items: Sequence[CachedItem]) -> Counter[str]:
    used: Counter[str] = Counter()
    for item in items:
        for organization_id in item.organization_ids:
            used[organization_id] += item.size_bytes // len(item.organization_ids)
    return used
