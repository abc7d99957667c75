"""Exports a graph as Graphviz DOT and JSON, one line per node or edge, generated lazily.

File names are untrusted: they cannot end a string or contain terminal control characters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.inventory.dependencies import DependencyView, find_parents
from agentjobs_dependencies.imports.model import ModuleGraph

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Graphviz interprets entities in labels, so an ampersand must be one.
_IN_LABELS = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
_CONTROL_IN_JSON = re.compile("[\x7f-\x9f]")
_encode = msgspec.json.Encoder().encode


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


def json_list(name: str, values: Iterable[Any]) -> Iterator[str]:
    """A member of an object, a line for each value."""
    yield f"{json_text(name)}: ["
    separator = "\n"
    for value in values:
        yield separator + json_text(value)
        separator = ",\n"
    yield "]"


def json_text(value: Any) -> str:
    """Also escapes control characters that the encoder leaves as they are."""
    return _CONTROL_IN_JSON.sub(_escape_json, _encode(value).decode())


def _package_lines(dependencies: Sequence[DependencyView]) -> Iterator[str]:
    manifests = dict.fromkeys(package.manifest for package in dependencies)
    numbers = {name: at for at, name in enumerate(manifests)}
    for name, at in numbers.items():
        yield f"  f{at} [label={_quote(name)} shape=note];\n"
    parents = find_parents(dependencies)
    for package in dependencies:
        title = package.name if package.version is None else f"{package.name} {package.version}"
        yield f"  p{package.position} [label={_quote(title)} shape=component];\n"
        if package.position in parents:
            yield f"  p{parents[package.position]} -> p{package.position};\n"
        else:
            yield f"  f{numbers[package.manifest]} -> p{package.position};\n"


def _quote(name: str) -> str:
    visible = _HIDDEN.sub(_escape, name)
    return f'"{visible.translate(_IN_LABELS)}"'


def _escape(match: re.Match[str]) -> str:
    return repr(match[0])[1:-1]


def _escape_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
