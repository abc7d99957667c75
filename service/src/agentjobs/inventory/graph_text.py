"""Exports a graph as Graphviz DOT and JSON, one line per node or edge, generated lazily.

File names are untrusted: they cannot end a string or contain terminal control characters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentjobs.inventory.dependencies import DependencyView
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.json_output import json_list, json_text
from agentjobs_dependencies.package_paths import find_parents

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Graphviz interprets entities in labels, so an ampersand must be one.
_IN_LABELS = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})


def dot_lines(
    title: str, graph: ModuleGraph, dependencies: Sequence[DependencyView]
) -> Iterator[str]:
    """Files and external names with edges for imports; manifests and packages with edges for
    requirements."""
    yield f"digraph {_quote(title)} {{\n"
    yield "  rankdir=LR;\n  node [shape=box];\n"
    for at, name in enumerate(graph.files):
        yield f"  m{at} [label={_quote(name)}];\n"
    for at, name in enumerate(graph.externals):
        yield f"  e{at} [label={_quote(name)} style=dashed];\n"
    for importer, imported in graph.edges:
        yield f"  m{importer} -> m{imported};\n"
    for importer, imported in graph.external_edges:
        yield f"  m{importer} -> e{imported};\n"
    yield from _package_lines(dependencies)
    yield "}\n"


def json_pieces(
    properties: Mapping[str, Any], graph: ModuleGraph, dependencies: Iterable[Any]
) -> Iterator[str]:
    """One object: the properties, `modules` (edges are pairs of positions), `dependencies`."""
    yield "{"
    for name, value in properties.items():
        yield f"{json_text(name)}: {json_text(value)},\n"
    yield '"modules": {'
    yield from json_list("files", graph.files)
    yield ",\n"
    yield from json_list("edges", graph.edges)
    yield ",\n"
    yield from json_list("externals", graph.externals)
    yield ",\n"
    yield from json_list("external_edges", graph.external_edges)
    yield "},\n"
    yield from json_list("dependencies", dependencies)
    yield "}\n"


def _package_lines(dependencies: Sequence[DependencyView]) -> Iterator[str]:
    manifests = dict.fromkeys(package.manifest for package in dependencies)
    numbers = {name: at for at, name in enumerate(manifests)}
    for name, at in numbers.items():
        yield f"  f{at} [label={_quote(name)} shape=note];\n"
    parents = find_parents(dependencies)
    for at, package in enumerate(dependencies):
        title = package.name if package.version is None else f"{package.name} {package.version}"
        yield f"  p{at} [label={_quote(title)} shape=component];\n"
        parent = f"p{parents[at]}" if at in parents else f"f{numbers[package.manifest]}"
        yield f"  {parent} -> p{at};\n"


def _quote(name: str) -> str:
    visible = _HIDDEN.sub(_escape, name)
    return f'"{visible.translate(_IN_LABELS)}"'


def _escape(match: re.Match[str]) -> str:
    return repr(match[0])[1:-1]
