"""Sources affected by added and removed files; imports of all others keep their targets."""

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs.inventory.graph.encoding import FlatGraph
from agentjobs.inventory.imports import affected_sources
from agentjobs.inventory.model import ParsedManifest, ParsedModule
from tests.support.graphs import graph_of

Facts = dict[str, ParsedModule]

_WORDS = ("a", "b", "src", "c")
_words = st.sampled_from(_WORDS)
_directories = st.lists(_words, max_size=3).map(lambda parts: "".join(f"{part}/" for part in parts))


def _files(*names: str) -> st.SearchStrategy[str]:
    return st.builds(str.__add__, _directories, st.sampled_from(names))


def _joined(separator: str, most: int) -> st.SearchStrategy[str]:
    return st.lists(_words, min_size=1, max_size=most).map(separator.join)


_python_modules = st.one_of(
    _joined(".", 4),
    st.builds(str.__add__, st.sampled_from((".", "..", "...")), _joined(".", 3)),
    st.sampled_from((".", "..", "...")),
)
_members = st.one_of(st.just(""), _joined(",", 3).map(":{}".format), st.just(":*"))
_PYTHON = (
    _files("a.py", "b.py", "c.py", "__init__.py", "a.pyi", "b.pyx", "__init__.pyi"),
    st.builds(str.__add__, _python_modules, _members),
    ("pyproject.toml", "a/setup.cfg", "a/b/pyproject.toml"),
)
_JAVASCRIPT = (
    _files("a.ts", "b.js", "a.d.ts", "index.ts", "c.tsx", "a.json", "b.css", "b.css.ts", "a.vue"),
    st.builds(
        str.__add__,
        st.sampled_from(("", "./", "../", "@/", "pkg/")),
        st.one_of(
            _joined("/", 3), st.sampled_from(("b.css", "a.js", "b.js", "index", "", "src/b.css"))
        ),
    ).filter(bool),
    ("package.json", "a/package.json"),
)
_GO = (
    _files("a.go", "b.go", "a_test.go"),
    st.one_of(
        _joined("/", 3).map("pkg/{}".format), st.just("pkg"), _joined("/", 2).map("./{}".format)
    ),
    ("go.mod", "a/go.mod"),
)
_JAVA = (
    _files("A.java", "B.java"),
    st.builds(
        "{}{}.{}".format,
        st.sampled_from(("", "static ")),
        _joined(".", 3),
        st.sampled_from(("A", "B", "*", "A.B", "A.*", "b")),
    ),
    ("pom.xml",),
)
_RUST = (
    _files("a.rs", "b.rs", "lib.rs", "mod.rs", "main.rs", "c.inc"),
    st.one_of(
        st.builds(
            "{}::{}".format, st.sampled_from(("crate", "self", "super", "pkg")), _joined("::", 3)
        ),
        _joined("::", 3),
        _words.map("mod:{}".format),
        _words.map("mod:{}=c.inc".format),
    ),
    ("Cargo.toml", "a/Cargo.toml"),
)
_ECOSYSTEMS = {".toml": "PyPI", ".cfg": "PyPI", ".json": "npm", ".mod": "Go", ".xml": "Maven"}
_CONFIG = b'{"compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["a/*"]}}}'
_ASKING = {
    "m/a.py": ("added.x",),
    "m/b.py": ("added",),
    "m/c.py": ("..added:y,x",),
    "m/d.py": ("adder", ".a"),
}


def _manifests(paths: Collection[str]) -> Mapping[str, ParsedManifest]:
    manifests = {}
    for path in paths:
        ecosystem = "crates.io" if "Cargo" in path else _ECOSYSTEMS["." + path.rpartition(".")[2]]
        manifests[path] = ParsedManifest(ecosystem, project="pkg")
    return manifests


def _led(graph: FlatGraph, facts: Facts) -> dict[str, set[str]]:
    targets: dict[str, set[str]] = {path: set() for path in facts}
    for start, end in graph.edges.pairs:
        targets[graph.files[start]].add(graph.files[end])
    for start, end in graph.external_edges.pairs:
        targets[graph.files[start]].add(f"[{graph.externals[end]}]")
    return targets


@pytest.mark.parametrize(
    "language",
    [_PYTHON, _JAVASCRIPT, _GO, _JAVA, _RUST],
    ids=["Python", "JavaScript", "Go", "Java", "Rust"],
)
@settings(max_examples=50)
@given(data=st.data())
def test_imports_of_unaffected_sources_keep_their_targets(language, data) -> None:
    paths, names, projects = language
    sources = data.draw(st.dictionaries(paths, st.lists(names, max_size=4), max_size=8))
    facts = {path: ParsedModule(tuple(own)) for path, own in sources.items()}
    facts = {path: own for path, own in facts.items() if not path.endswith((".css", ".inc"))}
    manifests = _manifests(data.draw(st.sets(st.sampled_from(projects))))
    configs = data.draw(st.sampled_from(({}, {"tsconfig.json": _CONFIG})))
    others = data.draw(st.sets(paths, max_size=3))
    added = data.draw(st.sets(paths, min_size=1, max_size=2)).difference(facts, others)
    removed = data.draw(st.sets(st.sampled_from(sorted(facts)), max_size=1)) if facts else set()
    before = {*sources, *others}
    after = (before | added) - removed
    graph = graph_of(facts, before, manifests, configs)
    staying = before & after
    affected = affected_sources(
        added | removed, sorted(staying), manifests, configs, graph, len(facts)
    )
    left = {path: own for path, own in facts.items() if path in after and path not in affected}
    was, now = _led(graph, facts), _led(graph_of(left, after, manifests, configs), left)
    assert {path: was[path] for path in left} == now


def test_a_new_module_affects_sources_that_imported_its_name_from_the_package():
    facts = {
        "p/__init__.py": ParsedModule(()),
        "p/x.py": ParsedModule((".:new",)),
        "q.py": ParsedModule(("p:new", "os")),
        "r.py": ParsedModule(("p.x", "news")),
    }
    graph = graph_of(facts, facts, {}, {})
    assert affected_sources({"p/new.py"}, facts, {}, {}, graph, 4) == {
        "p/__init__.py",
        "p/x.py",
        "q.py",
    }


def test_a_new_directory_affects_sources_that_imported_its_name_as_external():
    facts = {name: ParsedModule(names) for name, names in _ASKING.items()}
    graph = graph_of(facts, facts, {}, {})
    assert affected_sources({"added/x.py"}, facts, {}, {}, graph, 4) == {
        "m/a.py",
        "m/b.py",
        "m/c.py",
    }


def test_a_file_that_cannot_be_imported_affects_no_source():
    facts = {"p/__init__.py": ParsedModule(("os",)), "p/x.py": ParsedModule(("p", "readme"))}
    graph = graph_of(facts, facts, {}, {})
    assert affected_sources({"p/readme.md", "p/x.json"}, facts, {}, {}, graph, 2) == set()
