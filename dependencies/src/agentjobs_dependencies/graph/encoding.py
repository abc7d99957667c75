"""Packs a module graph for storage, and unpacks it."""

import zlib

import msgspec

from agentjobs_dependencies.imports.model import ModuleGraph

_LEVEL = 1


def pack_graph(graph: ModuleGraph) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(graph), _LEVEL)


def unpack_graph(data: bytes) -> ModuleGraph | None:
    """None for a graph that an earlier version packed: its repository is indexed again soon."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(data), type=ModuleGraph)
    except msgspec.DecodeError:
        return None
