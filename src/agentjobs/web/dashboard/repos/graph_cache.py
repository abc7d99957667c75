"""Caches recently viewed module graphs, up to a total number of files and edges.

The graph of a commit never changes. Graphs are unpacked in a thread.
"""

import asyncio
from functools import cache

from agentjobs.inventory.graph.encoding import unpack_graph
from agentjobs.inventory.model import ModuleGraph
from agentjobs.store.database import Database
from agentjobs.weighted_cache import WeightedCache

# An entry takes a few hundred bytes.
MAX_ENTRIES = 400_000

# The size distinguishes results of different analyzer versions for one commit.
_Version = tuple[str, int]


class GraphCache:
    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._graphs: WeightedCache[str, tuple[_Version, ModuleGraph]] = WeightedCache(max_entries)

    async def load(self, db: Database, repo_id: str) -> ModuleGraph | None:
        """None until the repository is indexed."""
        row = await db.fetch_one(
            "SELECT commit_id, LENGTH(data) AS size FROM repo_graphs WHERE repo_id = :repo_id",
            repo_id=repo_id,
        )
        if row is None:
            return None
        version = (row["commit_id"], row["size"])
        cached = self._graphs.get(repo_id)
        if cached is not None and cached[0] == version:
            return cached[1]
        graph = await _load(db, repo_id)
        if graph is not None:
            self._graphs.put(repo_id, (version, graph), _entries(graph))
        return graph


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
