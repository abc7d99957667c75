"""Packs a module graph for storage, and unpacks it.

Uses flat columns of numbers, so that a large graph is patched without an object per edge.
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
# An edge as one number, with its start in the upper half: faster to sort than a pair.
START = 1 << 32
_START_HALF = int(sys.byteorder == "little")


class Edges(msgspec.Struct):
    """Columns of starts and ends, sorted by start, then by end."""

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
    """The imports of some sources. Files are numbered by their position among all sorted paths."""

    sources: "array[int]"
    edges: Edges
    externals: list[str]
    external_edges: Edges


class PathColumns(msgspec.Struct, frozen=True, array_like=True):
    """A PathGraph encoded for another process."""

    sources: bytes = b""
    starts: bytes = b""
    ends: bytes = b""
    externals: str = ""
    external_starts: bytes = b""
    external_ends: bytes = b""


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    """A graph encoded for storage."""

    files: str = ""
    starts: bytes = b""
    ends: bytes = b""
    externals: str = ""
    external_starts: bytes = b""
    external_ends: bytes = b""


def edges_of(numbers: Sequence[int]) -> Edges:
    """From sorted edges, each as one number."""
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


def renumber(column: "array[int]", new: Sequence[int]) -> "array[int]":
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
    edges, external_edges = graph.edges, graph.external_edges
    columns = _Columns(
        _join_names(graph.files),
        edges.starts.tobytes(),
        edges.ends.tobytes(),
        _join_names(graph.externals),
        external_edges.starts.tobytes(),
        external_edges.ends.tobytes(),
    )
    return zlib.compress(msgspec.msgpack.encode(columns), _LEVEL)


def unpack_flat(data: bytes) -> FlatGraph:
    columns = msgspec.msgpack.decode(zlib.decompress(data), type=_Columns)
    return FlatGraph(
        _split_names(columns.files),
        _edges(columns.starts, columns.ends),
        _split_names(columns.externals),
        _edges(columns.external_starts, columns.external_ends),
    )


def to_columns(graph: PathGraph) -> PathColumns:
    edges, external_edges = graph.edges, graph.external_edges
    return PathColumns(
        graph.sources.tobytes(),
        edges.starts.tobytes(),
        edges.ends.tobytes(),
        _join_names(graph.externals),
        external_edges.starts.tobytes(),
        external_edges.ends.tobytes(),
    )


def from_columns(columns: PathColumns) -> PathGraph:
    return PathGraph(
        array(_NUMBER, columns.sources),
        _edges(columns.starts, columns.ends),
        _split_names(columns.externals),
        _edges(columns.external_starts, columns.external_ends),
    )


def _edges(starts: bytes, ends: bytes) -> Edges:
    return Edges(array(_NUMBER, starts), array(_NUMBER, ends))


def _flat_edges(pairs: Sequence[tuple[int, int]]) -> Edges:
    return edges_of([start * START + end for start, end in pairs])


def _join_names(names: list[str]) -> str:
    text = "\0".join(names)
    if text.count("\0") < max(len(names), 1):
        return text
    # A quoted name in a source file may contain the separator.
    return "\0".join([name.replace("\0", "\ufffd") for name in names])


def _split_names(text: str) -> list[str]:
    return text.split("\0") if text else []
