"""Caches recently viewed module graphs, up to a total number of files and edges.

The graph of a commit never changes. Graphs are unpacked in a thread.
"""

import asyncio
from collections import OrderedDict
from functools import cache

from agentjobs.inventory.graph.encoding import unpack_graph
from agentjobs.inventory.model import ModuleGraph
from agentjobs.store.database import Database

# An entry takes a few hundred bytes.
MAX_ENTRIES = 400_000

_Key = tuple[str, str, int]


class GraphCache:
    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._graphs: OrderedDict[_Key, ModuleGraph] = OrderedDict()

    async def load(self, db: Database, repo_id: str) -> ModuleGraph | None:
        """None until the repository is indexed."""
        # The size distinguishes results of different analyzer versions for one commit.
        row = await db.fetch_one(
            "SELECT commit_id, LENGTH(data) AS size FROM repo_graphs WHERE repo_id = :repo_id",
            repo_id=repo_id,
        )
        if row is None:
            return None
        key = (repo_id, row["commit_id"], row["size"])
        if key not in self._graphs:
            graph = await _load(db, repo_id)
            if graph is None:
                return None
            self._add(key, graph)
            return graph
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def _add(self, key: _Key, graph: ModuleGraph) -> None:
        for old in [cached for cached in self._graphs if cached[0] == key[0]]:
            del self._graphs[old]
        if _entries(graph) > self._max_entries:
            return
        self._graphs[key] = graph
        while sum(map(_entries, self._graphs.values())) > self._max_entries:
            self._graphs.popitem(last=False)


async def _load(db: Database, repo_id: str) -> ModuleGraph | None:
    row = await db.fetch_one(
        "SELECT data FROM repo_graphs WHERE repo_id = :repo_id", repo_id=repo_id
    )
    return None if row is None else await asyncio.to_thread(unpack_graph, row["data"])


def _entries(graph: ModuleGraph) -> int:
    lists = (graph.files, graph.edges, graph.externals, graph.external_edges)
    return sum(map(len, lists))


@cache
def shared_cache() -> GraphCache:
    """The cache of this process."""
    return GraphCache()
