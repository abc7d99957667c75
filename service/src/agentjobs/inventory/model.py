"""Values of an index: what analyzers produce and the store keeps.

The index process imports this module, so it must not import anything heavy.
"""

import msgspec

from agentjobs_dependencies.model import (
    Dependency,
    Imported,
    IndexWarning,
    Locked,
    ParsedManifest,
    Requirement,
    Root,
    Scope,
)

__all__ = [
    "MAX_IMPORTS",
    "Dependency",
    "Imported",
    "IndexWarning",
    "LanguageLines",
    "Locked",
    "ModuleGraph",
    "ParsedManifest",
    "ParsedModule",
    "Requirement",
    "Root",
    "Scope",
]

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


class LanguageLines(msgspec.Struct, frozen=True, array_like=True):
    language: str
    files: int
    lines: int
