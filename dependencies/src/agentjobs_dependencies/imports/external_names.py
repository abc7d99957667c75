"""What the source files of a commit import from outside of it, and where that is unknown."""

from collections.abc import Iterable, Mapping

import msgspec

from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.imports.module_graph import find_family

# Languages whose files may import packages of the family, but whose imports are not read.
_UNREAD_LANGUAGES = {
    "python": frozenset({"Jupyter Notebook"}),
    "javascript": frozenset({"CSS", "HTML", "Less", "SCSS", "Sass", "Svelte", "Vue"}),
}


class ExternalNames(msgspec.Struct, frozen=True):
    """`names` are by family of languages. All imports of a family in `complete` are known."""

    names: Mapping[str, frozenset[str]]
    complete: frozenset[str]

    def of(self, family: str) -> frozenset[str]:
        return self.names.get(family, frozenset())


def find_external_names(graph: ModuleGraph) -> dict[str, frozenset[str]]:
    families = [find_family(path) or "" for path in graph.files]
    pairs = {(families[start], end) for start, end in graph.external_edges}
    names: dict[str, set[str]] = {}
    for family, end in pairs:
        names.setdefault(family, set()).add(graph.externals[end])
    return {family: frozenset(own) for family, own in names.items() if family}


def find_complete_families(languages: Iterable[str], unread_paths: Iterable[str]) -> frozenset[str]:
    """The families without files of other languages that may import packages, and without files
    that could not be read. An empty path means the whole repository."""
    present, unread = frozenset(languages), list(unread_paths)
    if "" in unread:
        return frozenset()
    incomplete = {find_family(path) for path in unread}
    return frozenset(
        family
        for family, others in _UNREAD_LANGUAGES.items()
        if family not in incomplete and others.isdisjoint(present)
    )
