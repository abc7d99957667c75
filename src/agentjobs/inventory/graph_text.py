"""A whole graph as text: Graphviz' language and JSON, a line for each thing, made as it is read.

File names are a stranger's: none of them ends a string, and none moves a terminal's cursor.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.inventory.dependencies import DependencyView, asked_by
from agentjobs.inventory.model import ModuleGraph

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Graphviz reads entities in labels, and knows no other way to write these.
_IN_LABELS = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
_CONTROL_IN_JSON = re.compile("[\x7f-\x9f]")
_encode = msgspec.json.Encoder().encode


def dot_lines(
    title: str, graph: ModuleGraph, dependencies: Sequence[DependencyView]
) -> Iterator[str]:
    """Files and externals with an edge to what they import; manifests, packages and who asks for
    them."""
    yield f"digraph {_quoted(title)} {{\n"
    yield "  rankdir=LR;\n  node [shape=box];\n"
    for at, name in enumerate(graph.files):
        yield f"  m{at} [label={_quoted(name)}];\n"
    for at, name in enumerate(graph.externals):
        yield f"  e{at} [label={_quoted(name)} style=dashed];\n"
    for importer, imported in graph.edges:
        yield f"  m{importer} -> m{imported};\n"
    for importer, imported in graph.external_edges:
        yield f"  m{importer} -> e{imported};\n"
    yield from _package_lines(dependencies)
    yield "}\n"


def json_pieces(
    facts: Mapping[str, Any], graph: ModuleGraph, dependencies: Iterable[Any]
) -> Iterator[str]:
    """One object: the facts, `modules` (edges are pairs of positions), `dependencies`."""
    yield "{"
    for name, value in facts.items():
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
    """The encoder leaves some control characters as they are; escaped they are the same value."""
    return _CONTROL_IN_JSON.sub(_as_json_escape, _encode(value).decode())


def _package_lines(dependencies: Sequence[DependencyView]) -> Iterator[str]:
    manifests = dict.fromkeys(one.manifest for one in dependencies)
    numbers = {name: at for at, name in enumerate(manifests)}
    for name, at in numbers.items():
        yield f"  f{at} [label={_quoted(name)} shape=note];\n"
    parents = asked_by(dependencies)
    for one in dependencies:
        title = one.name if one.version is None else f"{one.name} {one.version}"
        yield f"  p{one.position} [label={_quoted(title)} shape=component];\n"
        if one.position in parents:
            yield f"  p{parents[one.position]} -> p{one.position};\n"
        else:
            yield f"  f{numbers[one.manifest]} -> p{one.position};\n"


def _quoted(name: str) -> str:
    visible = _HIDDEN.sub(_as_escape, name)
    return f'"{visible.translate(_IN_LABELS)}"'


def _as_escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _as_json_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
