"""Module graphs that were looked at lately: unpacked beside the event loop, and kept.

A graph of a commit never changes; as many are kept as have so many files and edges together.
"""

import asyncio
from collections import OrderedDict
from functools import cache

from agentjobs.inventory.graph_data import unpack_graph
from agentjobs.inventory.model import ModuleGraph
from agentjobs.store.database import Database

# An edge takes some hundred bytes.
MOST_ENTRIES = 400_000

_Key = tuple[str, str, int]


class KnownGraphs:
    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most_entries = most_entries
        self._graphs: OrderedDict[_Key, ModuleGraph] = OrderedDict()

    async def load(self, db: Database, repo_id: str) -> ModuleGraph | None:
        """None until the repository is indexed."""
        # The length tells apart what different analyzers found in one commit.
        row = await db.fetch_one(
            "SELECT commit_id, LENGTH(data) AS size FROM repo_graphs WHERE repo_id = :repo_id",
            repo_id=repo_id,
        )
        if row is None:
            return None
        key = (repo_id, row["commit_id"], row["size"])
        if key not in self._graphs:
            graph = await _unpacked(db, repo_id)
            if graph is None:
                return None
            self._keep(key, graph)
            return graph
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def _keep(self, key: _Key, graph: ModuleGraph) -> None:
        for old in [one for one in self._graphs if one[0] == key[0]]:
            del self._graphs[old]
        if _entries(graph) > self._most_entries:
            return
        self._graphs[key] = graph
        while sum(map(_entries, self._graphs.values())) > self._most_entries:
            self._graphs.popitem(last=False)


async def _unpacked(db: Database, repo_id: str) -> ModuleGraph | None:
    row = await db.fetch_one(
        "SELECT data FROM repo_graphs WHERE repo_id = :repo_id", repo_id=repo_id
    )
    return None if row is None else await asyncio.to_thread(unpack_graph, row["data"])


def _entries(graph: ModuleGraph) -> int:
    lists = (graph.files, graph.edges, graph.externals, graph.external_edges)
    return sum(map(len, lists))


@cache
def shared() -> KnownGraphs:
    """Those of this process."""
    return KnownGraphs()
