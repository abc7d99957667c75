"""Packs a module graph for storage, and unpacks it."""

import zlib
from array import array
from collections.abc import Sequence

import msgspec

from agentjobs_dependencies.imports.model import ModuleGraph

_LEVEL = 1
_NUMBER = "I"


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    """Names separated by NUL; the starts and the ends of edges as arrays of numbers."""

    files: str = ""
    starts: bytes = b""
    ends: bytes = b""
    externals: str = ""
    external_starts: bytes = b""
    external_ends: bytes = b""


def pack_graph(graph: ModuleGraph) -> bytes:
    columns = _Columns(
        _join_names(graph.files),
        *_columns(graph.edges),
        _join_names(graph.externals),
        *_columns(graph.external_edges),
    )
    return zlib.compress(msgspec.msgpack.encode(columns), _LEVEL)


def unpack_graph(data: bytes) -> ModuleGraph:
    columns = msgspec.msgpack.decode(zlib.decompress(data), type=_Columns)
    return ModuleGraph(
        files=_split_names(columns.files),
        edges=_pairs(columns.starts, columns.ends),
        externals=_split_names(columns.externals),
        external_edges=_pairs(columns.external_starts, columns.external_ends),
    )


def _columns(edges: Sequence[tuple[int, int]]) -> tuple[bytes, bytes]:
    starts, ends = (array(_NUMBER, [edge[side] for edge in edges]) for side in (0, 1))
    return starts.tobytes(), ends.tobytes()


def _pairs(starts: bytes, ends: bytes) -> tuple[tuple[int, int], ...]:
    return tuple(zip(array(_NUMBER, starts), array(_NUMBER, ends), strict=True))


def _join_names(names: Sequence[str]) -> str:
    # A quoted name in a source file may contain the separator.
    return "\0".join([name.replace("\0", "\ufffd") for name in names])


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split("\0")) if text else ()
