"""How a module graph is packed to be stored, and unpacked again.

Flat columns of numbers: a graph of a hundred thousand edges is patched without making them.
"""

import sys
import zlib
from array import array
from collections.abc import Sequence

import msgspec

from agentjobs.repos.index.model import ModuleGraph

_LEVEL = 1
_NUMBER = "I"
_NUMBER_OF_EDGE = "Q"
# An edge as one number, its start above its end: sooner sorted than a pair.
START = 1 << 32
_START_HALF = int(sys.byteorder == "little")


class Edges(msgspec.Struct):
    """Sorted by start, then by end; a column of each."""

    starts: "array[int]"
    ends: "array[int]"

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self.starts, self.ends, strict=True))


class FlatGraph(msgspec.Struct):
    files: list[str]
    edges: Edges
    externals: list[str]
    external_edges: Edges


class GraphColumns(msgspec.Struct, frozen=True, array_like=True):
    """What a graph is between processes."""

    files: str = ""
    starts: bytes = b""
    ends: bytes = b""
    externals: str = ""
    external_starts: bytes = b""
    external_ends: bytes = b""


def edges_of(numbers: Sequence[int]) -> Edges:
    """Of edges in order, each as one number."""
    halves = array(_NUMBER, array(_NUMBER_OF_EDGE, numbers).tobytes())
    return Edges(halves[_START_HALF::2], halves[1 - _START_HALF :: 2])


def numbers_of(starts: "array[int]", ends: "array[int]") -> list[int]:
    """Each edge as one number."""
    halves = array(_NUMBER, bytes(2 * starts.itemsize * len(starts)))
    halves[_START_HALF::2] = starts
    halves[1 - _START_HALF :: 2] = ends
    return array(_NUMBER_OF_EDGE, halves.tobytes()).tolist()


def renumbered(column: "array[int]", numbers: Sequence[int]) -> "array[int]":
    return array(_NUMBER, map(numbers.__getitem__, column))


def pack_graph(graph: ModuleGraph) -> bytes:
    edges, external_edges = _flat_edges(graph.edges), _flat_edges(graph.external_edges)
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
    return pack_columns(to_columns(graph))


def unpack_flat(data: bytes) -> FlatGraph:
    return from_columns(msgspec.msgpack.decode(zlib.decompress(data), type=GraphColumns))


def pack_columns(columns: GraphColumns) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(columns), _LEVEL)


def to_columns(graph: FlatGraph) -> GraphColumns:
    return GraphColumns(
        _joined(graph.files),
        graph.edges.starts.tobytes(),
        graph.edges.ends.tobytes(),
        _joined(graph.externals),
        graph.external_edges.starts.tobytes(),
        graph.external_edges.ends.tobytes(),
    )


def from_columns(columns: GraphColumns) -> FlatGraph:
    return FlatGraph(
        _names(columns.files),
        Edges(array(_NUMBER, columns.starts), array(_NUMBER, columns.ends)),
        _names(columns.externals),
        Edges(array(_NUMBER, columns.external_starts), array(_NUMBER, columns.external_ends)),
    )


def _flat_edges(pairs: Sequence[tuple[int, int]]) -> Edges:
    return edges_of([start * START + end for start, end in pairs])


def _joined(names: list[str]) -> str:
    text = "\0".join(names)
    if text.count("\0") < max(len(names), 1):
        return text
    # A name out of a stranger's quotes may hold what divides names here.
    return "\0".join([name.replace("\0", "\ufffd") for name in names])


def _names(text: str) -> list[str]:
    return text.split("\0") if text else []
