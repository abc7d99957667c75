"""Views of a module graph, and its export as text."""

import json
import re

import pytest

from agentjobs.inventory.graph_text import dot_lines, json_pieces
from agentjobs_dependencies.graph.views import (
    Module,
    Neighbors,
    find_neighbors,
    most_imported,
    search_modules,
)
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.package_paths import find_parents
from tests.support.dependencies import package, views

# app → shop → core → base, cli → core; `three.js` is a file and a package.
GRAPH = ModuleGraph(
    files=("app.py", "base.py", "cli.py", "core.py", "shop.py", "three.js"),
    edges=((0, 4), (2, 3), (3, 1), (3, 3), (4, 3), (5, 1)),
    externals=("os", "requests", "three.js"),
    external_edges=((0, 0), (1, 0), (3, 0), (3, 1), (4, 1), (5, 2)),
)
HOSTILE = 'a"; } \\" \\\n\x1b[31m\x9b\u202e&amp;\\N end\\'


def test_a_file_has_its_importers_and_imports() -> None:
    assert find_neighbors(GRAPH, "core.py") == Neighbors(
        importers=("cli.py", "shop.py"),
        # An import of itself says nothing.
        imported=("base.py",),
        externals=("os", "requests"),
    )
    assert find_neighbors(GRAPH, "none.py") is None


def test_an_external_has_the_files_that_import_it() -> None:
    importers = Neighbors(importers=("core.py", "shop.py"))
    assert find_neighbors(GRAPH, "requests", external=True) == importers
    assert find_neighbors(GRAPH, "requests") is None
    assert find_neighbors(GRAPH, "three.js", external=True) == Neighbors(("three.js",))
    assert find_neighbors(GRAPH, "three.js") == Neighbors((), ("base.py",), ("three.js",))


def test_modules_are_ranked_by_their_number_of_importers() -> None:
    assert most_imported(GRAPH, 2) == [Module("base.py", False, 2), Module("core.py", False, 2)]
    assert most_imported(ModuleGraph(), 5) == []
    results = [(module.name, module.external) for module in search_modules(GRAPH, " THREE")]
    assert results == [("three.js", True), ("three.js", False)]
    assert len(search_modules(GRAPH, "", limit=4)) == 4


@pytest.mark.parametrize(
    ("dependencies", "expected"),
    [
        pytest.param(
            [
                package("npm", "a", "1"),
                package("npm", "c", "1", "a"),
                package("npm", "b", "1"),
                package("npm", "c", "2", "b"),
                package("npm", "d", "1", "b", "c"),
            ],
            {1: 0, 3: 2, 4: 3},
            id="the version that the same path leads to",
        ),
        pytest.param(
            [package("npm", "c", "1"), package("npm", "d", "1", "x", "c")],
            {1: 0},
            id="else the first of that name",
        ),
        pytest.param(
            [
                package("npm", "c", "1", manifest="one"),
                package("npm", "d", "1", "c", manifest="two"),
                package("PyPI", "d", "1", "c", manifest="one"),
                package("npm", "e", "1", "e"),
            ],
            {},
            id="none of another manifest or ecosystem, nor itself",
        ),
    ],
)
def test_the_parent_of_a_package_is_found_by_its_path(dependencies, expected) -> None:
    assert find_parents(views(dependencies)) == expected


def test_a_hostile_name_stays_within_its_string_in_dot() -> None:
    graph = ModuleGraph(files=(HOSTILE, "b.py"), edges=((0, 1),), externals=("os",))
    dependencies = views([package("npm", HOSTILE, "1"), package("npm", "x", None, HOSTILE)])
    text = "".join(dot_lines("acme/shop", graph, dependencies))
    label = r'"(?:[^"\\\n]|\\[\\"])*"'
    assert re.fullmatch(
        rf"digraph {label} \{{\n"
        rf"(?:  (?:rankdir=LR|node \[shape=box\]|[mefp]\d+ -> [mefp]\d+"
        rf"|[mefp]\d+ \[label={label}(?: style=dashed| shape=\w+)?\]);\n)*"
        r"\}\n",
        text,
    ), text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert '"a\\"; } \\\\\\" \\\\\\\\n\\\\x1b[31m\\\\x9b\\\\u202e&amp;amp;\\\\N end\\\\"' in text
    edges = re.findall(r"(\w+) -> (\w+)", text)
    assert edges == [("m0", "m1"), ("f0", "p0"), ("p0", "p1")]


def test_json_contains_everything_whatever_the_names() -> None:
    graph = ModuleGraph(
        files=(HOSTILE, "b.py"), edges=((0, 1),), externals=("os",), external_edges=((1, 0),)
    )
    text = "".join(json_pieces({"repo": "acme/shop"}, graph, views([package("npm", "x", None)])))
    assert "\x9b" not in text
    document = json.loads(text)
    assert document["repo"] == "acme/shop"
    assert document["modules"] == {
        "files": [HOSTILE, "b.py"],
        "edges": [[0, 1]],
        "externals": ["os"],
        "external_edges": [[1, 0]],
    }
    assert [dependency["name"] for dependency in document["dependencies"]] == ["x"]
    empty = json.loads("".join(json_pieces({}, ModuleGraph(), [])))
    assert empty["dependencies"] == empty["modules"]["files"] == []
