"""The module graph: every import led to a file of the repository or to a name outside of it.

Where a name leads depends on which paths exist, on manifests and on configurations of compilers;
never on what other source files say. So the imports of a few files can be resolved alone.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping

from agentjobs.inventory.graph_data import START, Edges, PathGraph, edges_of, numbers
from agentjobs.inventory.imports.golang.resolver import GoFiles
from agentjobs.inventory.imports.java.resolver import JavaFiles
from agentjobs.inventory.imports.javascript.resolver import JavaScriptFiles
from agentjobs.inventory.imports.javascript.tsconfig import CONFIG_MARK, is_config
from agentjobs.inventory.imports.limits import MAX_EDGES
from agentjobs.inventory.imports.python.resolver import PythonFiles
from agentjobs.inventory.imports.resolver import Place, Resolver
from agentjobs.inventory.imports.rust.resolver import RustFiles
from agentjobs.inventory.model import ManifestFacts, ModuleFacts

__all__ = ["CONFIG_MARK", "endings_of", "is_config", "is_full", "resolve"]

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
    paths: Mapping[str, int],
    manifests: Mapping[str, ManifestFacts],
    configs: Mapping[str, bytes],
) -> PathGraph:
    """The graph of `files`; `paths` has the numbers of all paths in their order, theirs too.

    Edges beyond `MAX_EDGES` are left out: ask `is_full` of the graph before it joins another.
    """
    makers: Mapping[str, Callable[[], Resolver]] = {
        "go": lambda: GoFiles(paths, manifests),
        "java": lambda: JavaFiles(paths),
        "javascript": lambda: JavaScriptFiles(paths, manifests, configs),
        "python": lambda: PythonFiles(paths, manifests),
        "rust": lambda: RustFiles(paths, manifests),
    }
    graph = _Graph(paths)
    resolvers: dict[str, Resolver] = {}
    for path in sorted(files):
        names = files[path].imports
        family = _FAMILIES.get(path.rpartition(".")[2].lower())
        if names and family is not None:
            resolver = resolvers.get(family)
            if resolver is None:
                resolver = resolvers[family] = makers[family]()
            graph.add(paths[path], names, resolver, resolver.scopes_of(path))
    return graph.finished(sorted([paths[path] for path in files]))


def endings_of(family: str) -> list[str]:
    """Of the languages whose imports are led by the same rules, in lower case."""
    return [f".{ending}" for ending, its in _FAMILIES.items() if its == family]


def is_full(graph: PathGraph) -> bool:
    """Whether `resolve` kept as many edges as it may, and left out what came behind them."""
    return len(graph.edges) + len(graph.external_edges) >= MAX_EDGES


class _Graph:
    """Numbers for places: those of files as they are given, those outside from `_OUTSIDE` up."""

    def __init__(self, paths: Mapping[str, int]) -> None:
        self._paths = paths
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
        return tuple([self._paths[path] for path in place])

    def finished(self, sources: list[int]) -> PathGraph:
        self._edges.sort()
        outside = bisect_left(self._edges, _OUTSIDE)
        outward = [edge - _OUTSIDE for edge in self._edges[outside:]]
        del self._edges[outside:]
        return PathGraph(numbers(sources), edges_of(self._edges), *self._in_order(outward))

    def _in_order(self, outward: list[int]) -> tuple[list[str], Edges]:
        """The names outside, sorted, and the edges that lead to them."""
        names = sorted(self._externals)
        rank = {self._externals[name] - _OUTSIDE: at for at, name in enumerate(names)}
        return names, edges_of(
            sorted([edge - edge % START + rank[edge % START] for edge in outward])
        )
