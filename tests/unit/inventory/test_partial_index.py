"""The parts of an index: portions that add up, graphs that are patched, names of packages."""

import sqlite3
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.inventory import imports
from agentjobs.inventory.graph_data import (
    FlatGraph,
    pack_flat,
    pack_graph,
    unpack_flat,
    unpack_graph,
)
from agentjobs.inventory.graph_merge import join_graphs, patch_graph
from agentjobs.inventory.index import scan
from agentjobs.inventory.index.analysis import BlobFacts, fingerprint, place_of
from agentjobs.inventory.index.assembly import dependencies_of, digest_of, languages_of, warnings_of
from agentjobs.inventory.index.cache import FactsCache
from agentjobs.inventory.index.partial_index import TOO_MANY_IMPORTS, Portion, merge
from agentjobs.inventory.model import (
    IndexWarning,
    LanguageLines,
    ManifestFacts,
    ModuleFacts,
    ModuleGraph,
    Requirement,
)
from agentjobs.inventory.purl import purl_of

_facts = st.one_of(
    st.builds(BlobFacts, st.none()),
    st.builds(BlobFacts, st.integers(0, 9)),
    st.builds(BlobFacts, st.integers(0, 9), module=st.just(ModuleFacts(("a",)))),
    st.builds(BlobFacts, st.integers(0, 9), manifest=st.just(ManifestFacts("npm"))),
    st.builds(BlobFacts, st.integers(0, 9), warning=st.just("odd")),
    st.none(),
)
_files = st.dictionaries(
    st.integers(0, 99).map(str),
    st.tuples(st.sampled_from(["Go", "Rust", None]), _facts),
    max_size=12,
)


def portion_of(files: dict[str, tuple[str | None, BlobFacts | None]]) -> Portion:
    portion = Portion()
    for path, (language, facts) in files.items():
        portion.paths.append(path)
        portion.put(path, language, facts)
    return portion


@given(_files, st.sets(st.integers(0, 99).map(str)))
def test_portions_add_up_to_the_whole(
    files: dict[str, tuple[str | None, BlobFacts | None]], chosen: set[str]
) -> None:
    parts = [
        portion_of({path: file for path, file in files.items() if (path in chosen) is side})
        for side in (True, False)
    ]
    added, whole = merge(parts, sorted(files)), portion_of(files)
    added.paths.sort()
    whole.paths.sort()
    assert added == whole


@given(_files, _facts, _facts)
def test_what_is_taken_from_a_portion_leaves_no_trace(
    files: dict[str, tuple[str | None, BlobFacts | None]],
    was: BlobFacts | None,
    now: BlobFacts | None,
) -> None:
    portion = portion_of(files | {"x": ("Go", was)})
    if was is not None:
        portion.take("x", "Go", was)
        portion.put("x", "Go", now)
        expected = portion_of(files | {"x": ("Go", now)})
        assert languages_of(portion) == languages_of(expected)
        portion.languages = expected.languages
        assert portion == expected


_NAMES = [f"f{number}" for number in range(6)]
_imports = st.dictionaries(
    st.sampled_from(_NAMES), st.sets(st.sampled_from([*_NAMES, "x", "y", "z"])), max_size=6
)


def graph_of(imports: dict[str, set[str]]) -> ModuleGraph:
    """As a resolver makes it, of files of which every one is there."""
    files = _NAMES
    externals = sorted({name for names in imports.values() for name in names} - set(files))
    pairs = sorted((files.index(path), name) for path, names in imports.items() for name in names)
    return ModuleGraph(
        files=tuple(files),
        edges=tuple(sorted((at, files.index(name)) for at, name in pairs if name in files)),
        externals=tuple(externals),
        external_edges=tuple(
            sorted((at, externals.index(name)) for at, name in pairs if name not in files)
        ),
    )


def flat(graph: ModuleGraph) -> FlatGraph:
    return unpack_flat(pack_graph(graph))


@given(_imports, _imports)
def test_a_patched_graph_is_the_graph_of_the_patched_files(
    before: dict[str, set[str]], changed: dict[str, set[str]]
) -> None:
    patched = patch_graph(flat(graph_of(before)), len(_NAMES), flat(graph_of(changed)), changed)
    assert patched is not None
    assert unpack_graph(pack_flat(patched)) == graph_of(before | changed)


def test_a_name_that_holds_what_divides_names_moves_no_other() -> None:
    graph = ModuleGraph(("a.js",), (), ("b\0c", "d"), ((0, 0), (0, 1)))
    assert unpack_graph(pack_graph(graph)).externals == ("b\ufffdc", "d")


def test_files_that_appear_or_disappear_beside_the_sources_are_patched_too() -> None:
    old = ModuleGraph(("a", "data"), ((0, 1),))
    for new in (ModuleGraph(("a", "more"), ((0, 1),)), ModuleGraph(("a",)), old):
        assert patch_graph(flat(old), 1, flat(new), ["a"]) == flat(new)


@given(_imports, st.lists(st.sets(st.sampled_from(_NAMES)), max_size=3), st.sampled_from([0, 4]))
def test_graphs_of_parts_are_joined_to_the_graph_of_all(
    sources: dict[str, set[str]], others: list[set[str]], common: int
) -> None:
    """Also if a part has a source of another, or leads to what is no source at all."""
    paths = [f"{name}.py" for name in _NAMES]
    numbers = {path: at for at, path in enumerate(paths)}
    facts = {f"{name}.py": ModuleFacts(tuple(names)) for name, names in sources.items()}
    left, shares = dict(facts), []
    for other in others:
        shares.append({path: own for path, own in left.items() if path[:-3] in other})
        left = {path: own for path, own in left.items() if path[:-3] not in list(other)[common:]}
    parts = [imports.resolve(share, numbers, {}, {}) for share in [*shares, left]]
    whole = imports.resolve(facts, numbers, {}, {})
    assert join_graphs(parts, paths) == join_graphs([whole], paths)


def test_a_graph_names_its_sources_first_and_then_what_they_lead_to() -> None:
    facts = {"b.py": ModuleFacts(("a", "c", "os")), "d.py": ModuleFacts(("b",))}
    paths = ["a.py", "b.py", "c.py", "d.py"]
    numbers = {path: at for at, path in enumerate(paths)}
    found = join_graphs([imports.resolve(facts, numbers, {}, {})], paths)
    whole = ModuleGraph(
        ("b.py", "d.py", "a.py", "c.py"), ((0, 2), (0, 3), (1, 0)), ("os",), ((0, 0),)
    )
    assert found == flat(whole)


@pytest.mark.parametrize(
    ("path", "language", "task"),
    [
        ("src/a.py", "Python", "module"),
        ("vendor/a.py", None, "lines"),
        ("a.c", "C", "lines"),
        ("web/tsconfig.json", None, "content"),
        (".agentjobs.toml", None, "content"),
        ("sub/.agentjobs.toml", None, "lines"),
        ("requirements-dev.txt", None, "manifest"),
        ("sub/uv.lock", None, "manifest"),
        ("node_modules/a/package.json", None, "lines"),
        ("README.md", None, "lines"),
    ],
)
def test_a_path_tells_what_is_to_be_found_out(path: str, language: str | None, task: str) -> None:
    place = place_of(path.encode(), path)
    assert (place.language, place.analyzer.task) == (language, task)


def test_analyzers_of_different_subjects_have_different_keys() -> None:
    paths = [
        "a.py",
        "a.go",
        "a.ts",
        "a.js",
        "a.rs",
        "a.A.java",
        "go.mod",
        "Cargo.lock",
        "a",
        "uv.lock",
    ]
    assert len({place_of(path.encode(), path).analyzer.key for path in paths}) == len(paths)
    assert len(fingerprint()) == 16


@pytest.mark.parametrize(
    ("ecosystem", "name", "version", "purl"),
    [
        ("PyPI", "requests", "2.31.0", "pkg:pypi/requests@2.31.0"),
        ("PyPI", "flask", None, "pkg:pypi/flask"),
        ("npm", "@scope/left", "1.0.0", "pkg:npm/%40scope/left@1.0.0"),
        ("Go", "golang.org/x/text", "0.3.8", "pkg:golang/golang.org/x/text@0.3.8"),
        ("crates.io", "time", "0.2.6", "pkg:cargo/time@0.2.6"),
        ("Maven", "org.a:core", "2.0+b", "pkg:maven/org.a/core@2.0%2Bb"),
        ("RubyGems", "rails", "6.1", "pkg:gem/rails@6.1"),
        ("Packagist", "a/b", "1", "pkg:composer/a/b@1"),
        ("npm", "", "1", ""),
        ("npm", " ", "1", ""),
        ("PyPI", "a/", "1", ""),
    ],
)
def test_a_package_has_a_name_that_every_tool_reads(
    ecosystem: str, name: str, version: str | None, purl: str
) -> None:
    assert purl_of(ecosystem, name, version) == purl


@given(
    st.sampled_from(["PyPI", "npm", "crates.io", "RubyGems"]),
    st.text("abzAZ09.-_@/+~ é", min_size=1, max_size=6),
    st.text("abZ09.-_+! :", min_size=1, max_size=5),
)
def test_simple_names_are_written_as_the_library_writes_them(
    ecosystem: str, name: str, version: str
) -> None:
    with mock.patch("agentjobs.inventory.purl._SIMPLE", frozenset()):
        written = purl_of(ecosystem, name, version)
    assert purl_of(ecosystem, name, version) == written


def test_packages_whose_names_are_no_names_are_left_out_with_a_warning() -> None:
    names = ("good", "nul\0", "line\n", "x" * 2_000, "")
    facts = ManifestFacts(
        "PyPI", requirements=tuple(Requirement(name, "==1", "1") for name in names)
    )
    combined = dependencies_of(Portion(manifests={"requirements.txt": facts}))
    assert [one.name for one in combined.dependencies] == ["good"]
    assert "4 packages" in combined.warnings[-1].reason
    assert digest_of(combined.dependencies) != digest_of(())


def test_warnings_are_bounded_and_languages_are_sorted() -> None:
    portion = Portion(
        warnings={str(number): "odd" for number in range(300)},
        languages={"C": (1, 5), "Go": (2, 7), "Gone": (0, 0)},
    )
    assert len(warnings_of(portion, ())) == 201
    assert warnings_of(portion, ())[-1].reason == "and 100 more"
    assert languages_of(portion) == (LanguageLines("Go", 2, 7), LanguageLines("C", 1, 5))


def test_the_cache_gives_back_what_it_got_and_forgets_when_it_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sub" / "facts.db"
    facts = {bytes([number]) * 24: BlobFacts(number) for number in range(200)}
    cache = FactsCache(path)
    cache.put(facts)
    assert cache.get([*facts, b"unknown"]) == facts
    cache.close()
    monkeypatch.setattr("agentjobs.inventory.index.cache.MAX_BYTES", 1)
    cache = FactsCache(path)
    assert cache.get(facts) == {}
    cache.put(facts)
    assert cache.get(facts) == facts
    cache.close()


def test_a_cache_of_another_layout_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    with closing(sqlite3.connect(path)) as older:
        older.execute("CREATE TABLE facts (key BLOB PRIMARY KEY, found TEXT, since TEXT)")
    with closing(FactsCache(path)) as cache:
        cache.put({b"key": BlobFacts(1)})
        assert cache.get([b"key"]) == {}
    with closing(FactsCache(path)) as cache:
        cache.put({b"key": BlobFacts(1)})
        assert cache.get([b"key"]) == {b"key": BlobFacts(1)}


def test_who_looks_for_a_key_does_not_read_the_large_facts_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    with closing(FactsCache(path)) as cache:
        cache.put({b"m" * 24: BlobFacts(1, content=bytes(1_000_000))})
    with closing(sqlite3.connect(path)) as reading:
        (plan,) = reading.execute("EXPLAIN QUERY PLAN SELECT facts FROM facts WHERE key = ''")
        assert "INDEX" in plan[3]
        assert "PRIMARY KEY" not in plan[3]


def test_a_cache_that_cannot_be_written_keeps_nobody_from_working(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FactsCache(tmp_path / "file" / "facts.db")
    cache.put({b"key": BlobFacts(1)})
    assert cache.get([b"key"]) == {}
    assert cache.get_state("repo_x") is None
    cache.close()


@pytest.mark.parametrize(("limit", "is_told"), [(1, True), (9, False)])
def test_a_graph_that_lacks_imports_is_a_warning(monkeypatch, limit: int, is_told: bool) -> None:
    monkeypatch.setattr(imports.module_graph, "MAX_EDGES", limit)
    plan = [scan.planned(path, path[:1].hex().encode()) for path in (b"a.py", b"b.py")]
    facts = BlobFacts(lines=1, module=ModuleFacts(("a", "b", "os")))
    around = scan.Surroundings({"a.py": 0, "b.py": 1}, {}, {})
    portion = scan._portion(plan, {one.key: facts for one in plan}, around)
    told = warnings_of(portion, ())
    assert told == ((IndexWarning("", TOO_MANY_IMPORTS),) if is_told else ())
