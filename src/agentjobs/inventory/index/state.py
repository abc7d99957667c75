"""The state that an index saves so that the next one can update it, without the files' analyses.

Valid only while the store has the index of the same commit.
"""

import zlib

import msgspec

from agentjobs.inventory.graph.encoding import FlatGraph, PathColumns
from agentjobs.inventory.index.analysis import fingerprint
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.partial_index import PartialIndex
from agentjobs.inventory.model import IndexWarning

_LEVEL = 1


class _Summary(msgspec.Struct, frozen=True, array_like=True):
    commit: str
    fingerprint: str
    checksum: int
    stored_state: bytes


class IndexState(msgspec.Struct):
    """`index` has no paths and no graph; they are here, packed.

    `new_paths` replaces `packed_paths` if the paths have changed, and `new_graph` is the graph if
    that has. `digest` is the digest of the dependencies, empty once they may have changed;
    `externals_digest` is that of the external names that they were marked with, which are complete
    for `complete_families` of languages. `missing_poms` are coordinates that may be published by
    now.
    """

    index: PartialIndex
    file_count: int
    packed_paths: bytes
    graph: bytes
    new_paths: list[str] | None = None
    digest: str = ""
    dependency_warnings: tuple[IndexWarning, ...] = ()
    externals_digest: str = ""
    complete_families: frozenset[str] = frozenset()
    missing_poms: tuple[str, ...] = ()
    new_graph: FlatGraph | None = None

    @property
    def paths(self) -> list[str]:
        if self.new_paths is not None:
            return self.new_paths
        text = zlib.decompress(self.packed_paths).decode()
        return text.split("\0") if text else []


class _StoredState(msgspec.Struct, frozen=True, array_like=True):
    index: PartialIndex
    file_count: int
    digest: str
    dependency_warnings: tuple[IndexWarning, ...]
    externals_digest: str
    complete_families: frozenset[str]
    missing_poms: tuple[str, ...]


def load_state(cache: AnalysisCache, repo_id: str, commit: str) -> IndexState | None:
    """None unless an intact state of this commit by the current analyzers is saved."""
    row = cache.get_state(repo_id) if repo_id and commit else None
    if row is None:
        return None
    try:
        summary = msgspec.msgpack.decode(row[0], type=_Summary)
        if (summary.commit, summary.fingerprint) != (commit, fingerprint()):
            return None
        if summary.checksum != _checksum(row[1], row[2]):
            return None
        stored = msgspec.msgpack.decode(summary.stored_state, type=_StoredState)
    except msgspec.MsgspecError:
        return None
    return IndexState(
        index=stored.index,
        file_count=stored.file_count,
        packed_paths=row[1],
        graph=row[2],
        digest=stored.digest,
        dependency_warnings=stored.dependency_warnings,
        externals_digest=stored.externals_digest,
        complete_families=stored.complete_families,
        missing_poms=stored.missing_poms,
    )


def new_state(index: PartialIndex, graph: bytes) -> IndexState:
    return IndexState(index, len(index.paths), b"", graph, index.paths)


def save_state(cache: AnalysisCache, repo_id: str, commit: str, state: IndexState) -> None:
    if state.new_paths is not None:
        state.packed_paths = zlib.compress("\0".join(state.new_paths).encode(), _LEVEL)
    cache.put_state(repo_id, _summary(state, commit), state.packed_paths, state.graph)


def _summary(state: IndexState, commit: str) -> bytes:
    index = msgspec.structs.replace(state.index, paths=[], graph=PathColumns())
    stored = _StoredState(
        index,
        state.file_count,
        state.digest,
        state.dependency_warnings,
        state.externals_digest,
        state.complete_families,
        state.missing_poms,
    )
    packed = msgspec.msgpack.encode(stored)
    checksum = _checksum(state.packed_paths, state.graph)
    return msgspec.msgpack.encode(_Summary(commit, fingerprint(), checksum, packed))


def _checksum(paths: bytes, graph: bytes) -> int:
    return zlib.crc32(graph, zlib.crc32(paths))
