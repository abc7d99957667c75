"""How a module graph is packed to be stored, and unpacked again.

Flat columns of numbers: a graph of a hundred thousand edges is patched without making them.
"""

import zlib
from array import array
from collections.abc import Sequence

import msgspec

from agentjobs.repos.index.model import ModuleGraph

_LEVEL = 1
_NUMBER = "I"


class Edges(msgspec.Struct):
    """Sorted by start, then by end; a column of each."""

    starts: "array[int]"
    ends: "array[int]"

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self.starts, self.ends, strict=True))


class FlatGraph(msgspec.Struct):
    files: list[str]
    edges: Edges
    externals: list[str]
    external_edges: Edges


class _Packed(msgspec.Struct, array_like=True):
    files: str
    starts: bytes
    ends: bytes
    externals: str
    external_starts: bytes
    external_ends: bytes


def flat_edges(pairs: Sequence[tuple[int, int]]) -> Edges:
    return Edges(
        array(_NUMBER, [start for start, _ in pairs]), array(_NUMBER, [end for _, end in pairs])
    )


def pack_graph(graph: ModuleGraph) -> bytes:
    edges, external_edges = flat_edges(graph.edges), flat_edges(graph.external_edges)
    return pack_flat(FlatGraph(list(graph.files), edges, list(graph.externals), external_edges))


def unpack_graph(data: bytes) -> ModuleGraph:
    flat = unpack_flat(data)
    return ModuleGraph(
        files=tuple(flat.files),
        edges=flat.edges.pairs,
        externals=tuple(flat.externals),
        external_edges=flat.external_edges.pairs,
    )


def pack_flat(graph: FlatGraph) -> bytes:
    packed = _Packed(
        _joined(graph.files),
        graph.edges.starts.tobytes(),
        graph.edges.ends.tobytes(),
        _joined(graph.externals),
        graph.external_edges.starts.tobytes(),
        graph.external_edges.ends.tobytes(),
    )
    return zlib.compress(msgspec.msgpack.encode(packed), _LEVEL)


def unpack_flat(data: bytes) -> FlatGraph:
    packed = msgspec.msgpack.decode(zlib.decompress(data), type=_Packed)
    return FlatGraph(
        _names(packed.files),
        Edges(array(_NUMBER, packed.starts), array(_NUMBER, packed.ends)),
        _names(packed.externals),
        Edges(array(_NUMBER, packed.external_starts), array(_NUMBER, packed.external_ends)),
    )


def _joined(names: list[str]) -> str:
    text = "\0".join(names)
    if text.count("\0") < max(len(names), 1):
        return text
    # A name out of a stranger's quotes may hold what divides names here.
    return "\0".join([name.replace("\0", "\ufffd") for name in names])


def _names(text: str) -> list[str]:
    return text.split("\0") if text else []
