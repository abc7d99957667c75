"""Finds the sources whose imports may resolve differently after files were added or removed. Pure.

Decides by the targets of their imports in the old graph. The result may include too many sources,
never too few; where the old targets say too little, it includes all sources of a language.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping

from agentjobs.inventory.graph.encoding import FlatGraph
from agentjobs.inventory.imports.javascript.resolver import EXTENSIONS, candidate_files
from agentjobs.inventory.imports.module_graph import extensions_of
from agentjobs.inventory.imports.resolver import directory_of
from agentjobs.inventory.model import ParsedManifest

_PYTHON = (".py", ".pyi", ".pyx")


class _Affected:
    """A source is affected if one of its imports had one of these targets."""

    def __init__(self) -> None:
        self.families: set[str] = set()
        # These files are also affected themselves: the graph has no edges from a file to itself.
        self.files: set[str] = set()
        # Files directly in a directory, and files with a name anywhere in their path.
        self.directories: set[str] = set()
        self.names: set[str] = set()
        self.externals: set[str] = set()
        self.external_prefixes: set[str] = set()
        self.external_endings: set[str] = set()


def affected_sources(
    changed: Collection[str],
    paths: Collection[str],
    manifests: Mapping[str, ParsedManifest],
    configs: Mapping[str, bytes],
    graph: FlatGraph,
    sources: int,
) -> set[str]:
    """The sources of `graph`, its first `sources` files, whose imports must be resolved again.

    `changed` are the added and removed paths, `paths` all other paths, sorted.
    """
    affected = _Affected()
    python = _PythonChanges(paths, manifests)
    packages = [
        manifest
        for manifest in manifests.values()
        if manifest.ecosystem == "npm" and manifest.project
    ]
    for path in changed:
        if path.endswith(_PYTHON):
            python.add_affected(path, affected)
        elif path.endswith(".go") and not path.endswith("_test.go"):
            _add_affected_go(path, manifests, affected)
        elif path.endswith(".java"):
            affected.families.add("java")
        if path.endswith(".rs"):
            affected.families.add("rust")
        # Rust and JavaScript can import any file by its full path.
        affected.externals.add(path)
        if packages or configs or path.endswith(EXTENSIONS):
            affected.families.add("javascript")
        affected.files.update(candidate_files(path))
    return _sources_of(affected, graph, sources)


class _PythonChanges:
    def __init__(self, paths: Collection[str], manifests: Mapping[str, ParsedManifest]) -> None:
        self._modules = [path for path in paths if path.endswith(_PYTHON)]
        self._known = frozenset(self._modules)
        self._projects = {
            directory_of(path)
            for path, manifest in manifests.items()
            if manifest.ecosystem == "PyPI"
        }

    def add_affected(self, path: str, affected: _Affected) -> None:
        stem = path[: path.rindex(".")]
        directory, _, name = stem.rpartition("/")
        if not directory or name == "__init__":
            # A package changes the import path of all files below it; a top-level module is on
            # the import path of all files.
            affected.families.add("python")
            return
        for ancestor in self._up_to_module(stem):
            affected.files.update(_candidates(ancestor))
            affected.externals.add(ancestor)
        if not self._is_module(directory):
            # `from directory import a, name` resolved to `a` only.
            affected.directories.add(directory)
        affected.externals.update(stem.split("/"))
        affected.external_prefixes.add(directory + "/")
        if f"{directory}/__init__.py" not in self._known or directory in self._projects:
            affected.names.add(name)
        affected.names.update(self._new_directories(directory))

    def _up_to_module(self, stem: str) -> list[str]:
        """The module and its parents up to the first that is a module, its target without it."""
        stems = [stem]
        while stem := directory_of(stem):
            stems.append(stem)
            if self._is_module(stem):
                break
        return stems

    def _is_module(self, stem: str) -> bool:
        return not self._known.isdisjoint(_candidates(stem))

    def _new_directories(self, directory: str) -> list[str]:
        """The names of directories without other modules; an import may start with such a name."""
        names = []
        while directory:
            at = bisect_left(self._modules, directory + "/")
            if at < len(self._modules) and self._modules[at].startswith(directory + "/"):
                break
            directory, _, name = directory.rpartition("/")
            names.append(name)
        return names


def _candidates(stem: str) -> list[str]:
    return [stem + middle + ending for middle in ("", "/__init__") for ending in _PYTHON]


def _add_affected_go(
    path: str, manifests: Mapping[str, ParsedManifest], affected: _Affected
) -> None:
    """Sources that import the package, whether or not the import was resolved."""
    directory = directory_of(path)
    affected.directories.add(directory)
    affected.external_prefixes.add(".")
    affected.external_endings.add(directory.rpartition("/")[2])
    affected.externals.update(
        manifest.project
        for manifest in manifests.values()
        if manifest.ecosystem == "Go" and manifest.project
    )


def _sources_of(affected: _Affected, graph: FlatGraph, sources: int) -> set[str]:
    own = graph.files[:sources]
    targets = _target_numbers(affected, graph.files)
    numbers = {number for number in targets if number < sources}
    if extensions := tuple(ext for family in affected.families for ext in extensions_of(family)):
        numbers |= {at for at, path in enumerate(own) if path.lower().endswith(extensions)}
    externals = {at for at, name in enumerate(graph.externals) if _matches_external(name, affected)}
    for edges, ends in ((graph.edges, targets), (graph.external_edges, externals)):
        if ends:
            pairs = zip(edges.starts, edges.ends, strict=True)
            numbers.update([start for start, end in pairs if end in ends])
    return {own[number] for number in numbers}


def _target_numbers(affected: _Affected, files: list[str]) -> set[int]:
    numbers = {at for at, path in enumerate(files) if path in affected.files}
    # One substring test per name rules out most names.
    all_paths = "/" + "\0/".join(files)
    names = {name for name in affected.names if f"/{name}" in all_paths}
    directories = {
        directory
        for directory in affected.directories
        if not directory or f"/{directory}/" in all_paths
    }
    if names or directories:
        numbers |= {at for at, path in enumerate(files) if _matches_path(path, names, directories)}
    return numbers


def _matches_path(path: str, names: set[str], directories: set[str]) -> bool:
    """True if the file is in one of the directories or has one of the names in its path."""
    above, _, last = path.rpartition("/")
    if above in directories or (
        last.startswith("__init__.") and directory_of(above) in directories
    ):
        return True
    return last.rpartition(".")[0] in names or not names.isdisjoint(above.split("/"))


def _matches_external(name: str, affected: _Affected) -> bool:
    return (
        name in affected.externals
        or name.startswith(tuple(affected.external_prefixes))
        or name.rpartition("/")[2] in affected.external_endings
    )
