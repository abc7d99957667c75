"""How a module graph is packed to be stored, and unpacked again.

Flat columns of numbers: a graph of a hundred thousand edges is patched without making them.
"""

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.inventory.model import ModuleGraph

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


class PathGraph(msgspec.Struct):
    """The imports of some sources. A file is the number of its path among all paths, in order."""

    sources: "array[int]"
    edges: Edges
    externals: list[str]
    external_edges: Edges


class PathColumns(msgspec.Struct, frozen=True, array_like=True):
    """What such a graph is between processes."""

    sources: bytes = b""
    starts: bytes = b""
    ends: bytes = b""
    externals: str = ""
    external_starts: bytes = b""
    external_ends: bytes = b""


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    """What a graph is when it is stored."""

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


def numbers(values: Iterable[int]) -> "array[int]":
    return array(_NUMBER, values)


def renumbered(column: "array[int]", new: Sequence[int]) -> "array[int]":
    return array(_NUMBER, map(new.__getitem__, column))


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
    edges, outward = graph.edges, graph.external_edges
    columns = _Columns(
        _joined(graph.files),
        edges.starts.tobytes(),
        edges.ends.tobytes(),
        _joined(graph.externals),
        outward.starts.tobytes(),
        outward.ends.tobytes(),
    )
    return zlib.compress(msgspec.msgpack.encode(columns), _LEVEL)


def unpack_flat(data: bytes) -> FlatGraph:
    columns = msgspec.msgpack.decode(zlib.decompress(data), type=_Columns)
    return FlatGraph(
        _names(columns.files),
        _edges(columns.starts, columns.ends),
        _names(columns.externals),
        _edges(columns.external_starts, columns.external_ends),
    )


def to_columns(graph: PathGraph) -> PathColumns:
    edges, outward = graph.edges, graph.external_edges
    return PathColumns(
        graph.sources.tobytes(),
        edges.starts.tobytes(),
        edges.ends.tobytes(),
        _joined(graph.externals),
        outward.starts.tobytes(),
        outward.ends.tobytes(),
    )


def from_columns(columns: PathColumns) -> PathGraph:
    return PathGraph(
        array(_NUMBER, columns.sources),
        _edges(columns.starts, columns.ends),
        _names(columns.externals),
        _edges(columns.external_starts, columns.external_ends),
    )


def _edges(starts: bytes, ends: bytes) -> Edges:
    return Edges(array(_NUMBER, starts), array(_NUMBER, ends))


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
