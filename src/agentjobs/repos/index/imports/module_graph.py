"""The module graph: every import led to a file of the repository or to a name outside of it.

Where a name leads depends on which paths exist, on manifests and on configurations of compilers;
never on what other source files say. So the imports of a few files can be resolved alone.
"""

from collections.abc import Callable, Collection, Mapping

from agentjobs.repos.index.imports.golang_files import GoFiles
from agentjobs.repos.index.imports.java_files import JavaFiles
from agentjobs.repos.index.imports.javascript_files import JavaScriptFiles
from agentjobs.repos.index.imports.limits import MAX_EDGES
from agentjobs.repos.index.imports.places import Place, Resolver
from agentjobs.repos.index.imports.python_files import PythonFiles
from agentjobs.repos.index.imports.rust_files import RustFiles
from agentjobs.repos.index.imports.typescript_config import is_config
from agentjobs.repos.index.model import ManifestFacts, ModuleFacts, ModuleGraph

__all__ = ["is_config", "is_full", "resolve"]

_FAMILIES = {
    "go": "go",
    "java": "java",
    "rs": "rust",
    **dict.fromkeys(("py", "pyi", "pyx"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"), "javascript"),
}


def resolve(
    files: Mapping[str, ModuleFacts],
    every_path: Collection[str],
    manifests: Mapping[str, ManifestFacts],
    configs: Mapping[str, bytes],
) -> ModuleGraph:
    """The graph of `files`; further files that they lead to stand behind them.

    Edges beyond `MAX_EDGES` are left out: ask `is_full` of the graph before it joins another.
    """
    paths = every_path if isinstance(every_path, set | frozenset | dict) else frozenset(every_path)
    makers: Mapping[str, Callable[[], Resolver]] = {
        "go": lambda: GoFiles(paths, manifests),
        "java": lambda: JavaFiles(paths),
        "javascript": lambda: JavaScriptFiles(paths, manifests, configs),
        "python": lambda: PythonFiles(paths, manifests),
        "rust": lambda: RustFiles(paths, manifests),
    }
    graph = _Graph(sorted(files))
    resolvers: dict[str, Resolver] = {}
    for at, path in enumerate(graph.sources):
        names = files[path].imports
        family = _FAMILIES.get(path.rpartition(".")[2].lower())
        if names and family is not None:
            resolver = resolvers.get(family)
            if resolver is None:
                resolver = resolvers[family] = makers[family]()
            graph.add(at, names, resolver, resolver.scopes_of(path))
    return graph.finished()


def is_full(graph: ModuleGraph) -> bool:
    """Whether `resolve` kept as many edges as it may, and left out what came behind them."""
    return len(graph.edges) + len(graph.external_edges) >= MAX_EDGES


class _Graph:
    """Numbers for places: those of files from 0 up, those outside from -1 down."""

    def __init__(self, sources: list[str]) -> None:
        self.sources = sources
        self._files = {path: at for at, path in enumerate(sources)}
        self._externals: dict[str, int] = {}
        self._known: dict[tuple[Resolver, str], dict[str, tuple[int, ...]]] = {}
        self._edges: list[tuple[int, int]] = []
        self._external_edges: list[tuple[int, int]] = []

    def add(
        self, at: int, names: tuple[str, ...], resolver: Resolver, scopes: tuple[str, str]
    ) -> None:
        room = MAX_EDGES - len(self._edges) - len(self._external_edges)
        if room <= 0:
            return
        narrow, wide = (self._known.setdefault((resolver, scope), {}) for scope in scopes)
        places: set[int] = set()
        for name in names:
            numbers = wide.get(name)
            if numbers is None:
                numbers = narrow.get(name)
            if numbers is None:
                is_narrow = resolver.is_narrow(name)
                numbers = self._numbers(resolver.locate(scopes[not is_narrow], name))
                (narrow if is_narrow else wide)[name] = numbers
            places.update(numbers)
        places.discard(at)
        inward = [(at, place) for place in sorted(places) if place >= 0][:room]
        outward = [(at, place) for place in places if place < 0]
        self._edges += inward
        self._external_edges += outward[: room - len(inward)]

    def _numbers(self, place: Place) -> tuple[int, ...]:
        if not place:
            return ()
        if isinstance(place, str):
            return (self._externals.setdefault(place, ~len(self._externals)),)
        return tuple([self._files.setdefault(path, len(self._files)) for path in place])

    def finished(self) -> ModuleGraph:
        """Whatever was numbered as it came gets its place in alphabetical order."""
        sources = len(self.sources)
        further = sorted(list(self._files)[sources:])
        place = {self._files[path]: sources + at for at, path in enumerate(further)}
        externals = sorted(self._externals)
        number = {self._externals[name]: at for at, name in enumerate(externals)}
        edges = self._edges
        if further:
            edges = sorted([(start, place.get(end, end)) for start, end in edges])
        outward = sorted([(start, number[end]) for start, end in self._external_edges])
        return ModuleGraph(
            files=(*self.sources, *further),
            edges=tuple(edges),
            externals=tuple(externals),
            external_edges=tuple(outward),
        )
