"""What the source files of a commit import from outside of it, and where that is unknown."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from agentjobs.inventory.graph.encoding import FlatGraph
from agentjobs.inventory.imports.module_graph import family_of

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

    @property
    def digest(self) -> str:
        names = {family: sorted(names) for family, names in sorted(self.names.items())}
        content = msgspec.msgpack.encode((names, sorted(self.complete)))
        return hashlib.sha256(content).hexdigest()


def find_external_names(graph: FlatGraph) -> dict[str, frozenset[str]]:
    families = [family_of(path) or "" for path in graph.files]
    numbers: dict[str, set[int]] = {family: set() for family in set(families)}
    of_file = [numbers[family] for family in families]
    for start, end in zip(graph.external_edges.starts, graph.external_edges.ends, strict=True):
        of_file[start].add(end)
    return {
        family: frozenset(map(graph.externals.__getitem__, own))
        for family, own in numbers.items()
        if family and own
    }


def find_complete_families(languages: Iterable[str], unread_paths: Iterable[str]) -> frozenset[str]:
    """The families without files of other languages that may import packages, and without files
    that could not be read. An empty path means the whole repository."""
    present, unread = frozenset(languages), list(unread_paths)
    if "" in unread:
        return frozenset()
    incomplete = {family_of(path) for path in unread}
    return frozenset(
        family
        for family, others in _UNREAD_LANGUAGES.items()
        if family not in incomplete and others.isdisjoint(present)
    )
