"""The imports of source files, and the graph that results from them."""

import msgspec

# More names would take more memory than the source itself; no hand-written file has as many.
MAX_IMPORTS = 20_000


class ParsedModule(msgspec.Struct, frozen=True, array_like=True):
    """The imports of one source file."""

    imports: tuple[str, ...] = ()


class ModuleGraph(msgspec.Struct, frozen=True):
    """Files and their imports. `edges` are pairs of positions in `files`, `external_edges` of a
    position in `files` and one in `externals`; both are sorted and without duplicates."""

    files: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    externals: tuple[str, ...] = ()
    external_edges: tuple[tuple[int, int], ...] = ()
