"""Whose imports a file that appeared or disappeared may lead elsewhere. Pure.

Told by where they led before, as a graph says it: too many are named rather than too few, and all
of a language where that tells too little. Those are then resolved anew.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping

from agentjobs.inventory.graph_data import FlatGraph
from agentjobs.inventory.imports.javascript.resolver import ENDINGS, spellings
from agentjobs.inventory.imports.module_graph import endings_of
from agentjobs.inventory.imports.resolver import directory_of
from agentjobs.inventory.model import ManifestFacts

_PYTHON = (".py", ".pyi", ".pyx")


class _Traces:
    """Where the imports of a file led that may lead elsewhere now."""

    def __init__(self) -> None:
        self.families: set[str] = set()
        # They led to one of these files, or are one: what leads to oneself is not in the graph.
        self.files: set[str] = set()
        # The same for all files directly in a directory, and with a name anywhere in their path.
        self.directories: set[str] = set()
        self.names: set[str] = set()
        self.externals: set[str] = set()
        self.external_prefixes: set[str] = set()
        self.external_endings: set[str] = set()


def reached(
    changed: Collection[str],
    paths: Collection[str],
    manifests: Mapping[str, ManifestFacts],
    configs: Mapping[str, bytes],
    graph: FlatGraph,
    sources: int,
) -> set[str]:
    """The sources of `graph`, the first of its files, whose imports have to be resolved anew.

    `changed` are the paths that appeared or disappeared, `paths` those that did neither, in order.
    """
    traces = _Traces()
    python = _PythonPaths(paths, manifests)
    packages = [facts for facts in manifests.values() if facts.ecosystem == "npm" and facts.project]
    for path in changed:
        if path.endswith(_PYTHON):
            python.trace(path, traces)
        elif path.endswith(".go") and not path.endswith("_test.go"):
            _trace_go(path, manifests, traces)
        elif path.endswith(".java"):
            traces.families.add("java")
        if path.endswith(".rs"):
            traces.families.add("rust")
        # Rust and JavaScript can ask for any file by its whole name.
        traces.externals.add(path)
        if packages or configs or path.endswith(ENDINGS):
            traces.families.add("javascript")
        traces.files.update(spellings(path))
    return _sources_of(traces, graph, sources)


class _PythonPaths:
    def __init__(self, paths: Collection[str], manifests: Mapping[str, ManifestFacts]) -> None:
        self._modules = [path for path in paths if path.endswith(_PYTHON)]
        self._known = frozenset(self._modules)
        self._projects = {
            directory_of(path) for path, facts in manifests.items() if facts.ecosystem == "PyPI"
        }

    def trace(self, path: str, traces: _Traces) -> None:
        stem = path[: path.rindex(".")]
        directory, _, name = stem.rpartition("/")
        if not directory or name == "__init__":
            # A package more or less changes what is on the path of all files below; and what lies
            # at the top is on the path of all.
            traces.families.add("python")
            return
        for above in self._up_to_module(stem):
            traces.files.update(_spellings(above))
            traces.externals.add(above)
        if not self._is_module(directory):
            # `from directory import a, name` led to `a` alone.
            traces.directories.add(directory)
        traces.externals.update(stem.split("/"))
        traces.external_prefixes.add(directory + "/")
        if f"{directory}/__init__.py" not in self._known or directory in self._projects:
            traces.names.add(name)
        traces.names.update(self._new_directories(directory))

    def _up_to_module(self, stem: str) -> list[str]:
        """The module, and what its name led to without it: the first module above, if there is."""
        found = [stem]
        while stem := directory_of(stem):
            found.append(stem)
            if self._is_module(stem):
                break
        return found

    def _is_module(self, stem: str) -> bool:
        return not self._known.isdisjoint(_spellings(stem))

    def _new_directories(self, directory: str) -> list[str]:
        """The names of those in which nothing else is, which can stand first in an import."""
        names = []
        while directory:
            at = bisect_left(self._modules, directory + "/")
            if at < len(self._modules) and self._modules[at].startswith(directory + "/"):
                break
            directory, _, name = directory.rpartition("/")
            names.append(name)
        return names


def _spellings(stem: str) -> list[str]:
    return [stem + middle + ending for middle in ("", "/__init__") for ending in _PYTHON]


def _trace_go(path: str, manifests: Mapping[str, ManifestFacts], traces: _Traces) -> None:
    """Those who ask for the package: by the file that stood for it, or in vain."""
    directory = directory_of(path)
    traces.directories.add(directory)
    traces.external_prefixes.add(".")
    traces.external_endings.add(directory.rpartition("/")[2])
    traces.externals.update(
        facts.project for facts in manifests.values() if facts.ecosystem == "Go" and facts.project
    )


def _sources_of(traces: _Traces, graph: FlatGraph, sources: int) -> set[str]:
    own = graph.files[:sources]
    led_to = _led_to(traces, graph.files)
    found = {at for at in led_to if at < sources}
    if endings := tuple(ending for family in traces.families for ending in endings_of(family)):
        found |= {at for at, path in enumerate(own) if path.lower().endswith(endings)}
    outside = {at for at, name in enumerate(graph.externals) if _is_outside(name, traces)}
    for edges, ends in ((graph.edges, led_to), (graph.external_edges, outside)):
        if ends:
            pairs = zip(edges.starts, edges.ends, strict=True)
            found.update([start for start, end in pairs if end in ends])
    return {own[at] for at in found}


def _led_to(traces: _Traces, files: list[str]) -> set[int]:
    found = {at for at, path in enumerate(files) if path in traces.files}
    # Most are in no path at all: that is seen at once.
    every = "/" + "\0/".join(files)
    names = {name for name in traces.names if f"/{name}" in every}
    directories = {each for each in traces.directories if not each or f"/{each}/" in every}
    if names or directories:
        found |= {at for at, path in enumerate(files) if _is_near(path, names, directories)}
    return found


def _is_near(path: str, names: set[str], directories: set[str]) -> bool:
    """Whether the file lies in one of the directories, or has one of the names in its path."""
    above, _, last = path.rpartition("/")
    if above in directories or (
        last.startswith("__init__.") and directory_of(above) in directories
    ):
        return True
    return last.rpartition(".")[0] in names or not names.isdisjoint(above.split("/"))


def _is_outside(name: str, traces: _Traces) -> bool:
    return (
        name in traces.externals
        or name.startswith(tuple(traces.external_prefixes))
        or name.rpartition("/")[2] in traces.external_endings
    )
