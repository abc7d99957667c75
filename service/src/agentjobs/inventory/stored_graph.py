"""Loads the stored module graph, languages and warnings of a repository."""

import asyncio

import msgspec

from agentjobs.store.database import Database
from agentjobs_dependencies.graph.encoding import unpack_graph
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.languages import LanguageLines
from agentjobs_dependencies.model import IndexWarning


class IndexSummary(msgspec.Struct, frozen=True):
    languages: tuple[LanguageLines, ...]
    warnings: tuple[IndexWarning, ...]


async def load_graph(db: Database, repo_id: str) -> ModuleGraph | None:
    """None until the repository is indexed."""
    row = await db.fetch_one(
        "SELECT data FROM repo_graphs WHERE repo_id = :repo_id", repo_id=repo_id
    )
    return None if row is None else await asyncio.to_thread(unpack_graph, row["data"])


async def load_summary(db: Database, repo_id: str) -> IndexSummary:
    row = await db.fetch_one(
        "SELECT languages, warnings FROM repo_index WHERE repo_id = :repo_id", repo_id=repo_id
    )
    if row is None:
        return IndexSummary((), ())
    return IndexSummary(
        msgspec.json.decode(row["languages"], type=tuple[LanguageLines, ...]),
        msgspec.json.decode(row["warnings"], type=tuple[IndexWarning, ...]),
    )
