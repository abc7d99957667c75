"""The module graph: every import led to a file of the repository or to a name outside of it.

Where a name leads depends on which paths exist, on manifests and on configurations of compilers;
never on what other source files say. So the imports of a few files can be resolved alone.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from agentjobs.repos.index.graph_data import START, FlatGraph, edges_of
from agentjobs.repos.index.imports.golang_files import GoFiles
from agentjobs.repos.index.imports.java_files import JavaFiles
from agentjobs.repos.index.imports.javascript_files import JavaScriptFiles
from agentjobs.repos.index.imports.limits import MAX_EDGES
from agentjobs.repos.index.imports.places import Place, Resolver
from agentjobs.repos.index.imports.python_files import PythonFiles
from agentjobs.repos.index.imports.rust_files import RustFiles
from agentjobs.repos.index.imports.typescript_config import is_config
from agentjobs.repos.index.model import ManifestFacts, ModuleFacts

__all__ = ["endings_of", "is_config", "is_full", "resolve"]

_FAMILIES = {
    "go": "go",
    "java": "java",
    "rs": "rust",
    **dict.fromkeys(("py", "pyi", "pyx"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"), "javascript"),
}
# Above any edge between files.
_OUTSIDE = 1 << 62


def resolve(
    files: Mapping[str, ModuleFacts],
    every_path: Collection[str],
    manifests: Mapping[str, ManifestFacts],
    configs: Mapping[str, bytes],
) -> FlatGraph:
    """The graph of `files`; further files that they lead to stand behind them, in no order.

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


def endings_of(family: str) -> list[str]:
    """Of the languages whose imports are led by the same rules, in lower case."""
    return [f".{ending}" for ending, its in _FAMILIES.items() if its == family]


def is_full(graph: FlatGraph) -> bool:
    """Whether `resolve` kept as many edges as it may, and left out what came behind them."""
    return len(graph.edges) + len(graph.external_edges) >= MAX_EDGES


class _Graph:
    """Numbers for places: those of files from 0 up, those outside from `_OUTSIDE` up."""

    def __init__(self, sources: list[str]) -> None:
        self.sources = sources
        self._files = {path: at for at, path in enumerate(sources)}
        self._externals: dict[str, int] = {}
        self._known: dict[Resolver, dict[str, dict[str, tuple[int, ...]]]] = {}
        self._edges: list[int] = []

    def add(
        self, at: int, names: tuple[str, ...], resolver: Resolver, scopes: tuple[str, str]
    ) -> None:
        room = MAX_EDGES - len(self._edges)
        if room <= 0:
            return
        known = self._known.get(resolver)
        if known is None:
            known = self._known[resolver] = defaultdict(dict)
        narrow, wide = known[scopes[0]], known[scopes[1]]
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
        if len(places) > room:
            places = set(sorted(places)[:room])
        start = at * START
        self._edges += [start + place for place in places]

    def _numbers(self, place: Place) -> tuple[int, ...]:
        if not place:
            return ()
        if isinstance(place, str):
            return (self._externals.setdefault(place, _OUTSIDE + len(self._externals)),)
        return tuple([self._files.setdefault(path, len(self._files)) for path in place])

    def finished(self) -> FlatGraph:
        self._edges.sort()
        outside = bisect_left(self._edges, _OUTSIDE)
        outward = [edge - _OUTSIDE for edge in self._edges[outside:]]
        del self._edges[outside:]
        files, externals = list(self._files), list(self._externals)
        return FlatGraph(files, edges_of(self._edges), externals, edges_of(outward))
