"""What the last index of a repository leaves for the next one: all but the facts of its files.

Only worth something while the commit it was made of is the one that the store knows.
"""

import zlib

import msgspec

from agentjobs.inventory.graph_data import PathColumns
from agentjobs.inventory.index.analysis import fingerprint
from agentjobs.inventory.index.cache import FactsCache
from agentjobs.inventory.index.partial_index import Portion
from agentjobs.inventory.model import IndexWarning

_LEVEL = 1


class _Summary(msgspec.Struct, frozen=True, array_like=True):
    commit: str
    fingerprint: str
    checksum: int
    portion: bytes


class State(msgspec.Struct):
    """`whole` has neither its paths nor its graph: they are here, packed.

    `new_paths` are what the paths became, if that is not the same. `digest` is that of the
    dependencies, and empty once they may be others.
    """

    whole: Portion
    file_count: int
    packed_paths: bytes
    graph: bytes
    new_paths: list[str] | None = None
    digest: str = ""
    dependency_warnings: tuple[IndexWarning, ...] = ()

    @property
    def paths(self) -> list[str]:
        if self.new_paths is not None:
            return self.new_paths
        text = zlib.decompress(self.packed_paths).decode()
        return text.split("\0") if text else []


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    whole: Portion
    file_count: int
    digest: str
    dependency_warnings: tuple[IndexWarning, ...]


def load_state(cache: FactsCache, repo_id: str, commit: str) -> State | None:
    """None when there is none of this commit, by these analyzers, that came back as it was."""
    row = cache.get_state(repo_id) if repo_id and commit else None
    if row is None:
        return None
    try:
        summary = msgspec.msgpack.decode(row[0], type=_Summary)
        if (summary.commit, summary.fingerprint) != (commit, fingerprint()):
            return None
        if summary.checksum != _checksum(row[1], row[2]):
            return None
        kept = msgspec.msgpack.decode(summary.portion, type=_Kept)
    except msgspec.MsgspecError:
        return None
    return State(
        whole=kept.whole,
        file_count=kept.file_count,
        packed_paths=row[1],
        graph=row[2],
        digest=kept.digest,
        dependency_warnings=kept.dependency_warnings,
    )


def state_of(whole: Portion, graph: bytes) -> State:
    return State(whole, len(whole.paths), b"", graph, whole.paths)


def keep_state(cache: FactsCache, repo_id: str, commit: str, state: State) -> None:
    if state.new_paths is not None:
        state.packed_paths = zlib.compress("\0".join(state.new_paths).encode(), _LEVEL)
    cache.put_state(repo_id, _summary(state, commit), state.packed_paths, state.graph)


def _summary(state: State, commit: str) -> bytes:
    whole = _without_files(state.whole)
    kept = _Kept(whole, state.file_count, state.digest, state.dependency_warnings)
    packed = msgspec.msgpack.encode(kept)
    checksum = _checksum(state.packed_paths, state.graph)
    return msgspec.msgpack.encode(_Summary(commit, fingerprint(), checksum, packed))


def _without_files(whole: Portion) -> Portion:
    return msgspec.structs.replace(whole, paths=[], graph=PathColumns())


def _checksum(paths: bytes, graph: bytes) -> int:
    return zlib.crc32(graph, zlib.crc32(paths))
