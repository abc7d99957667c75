"""Parts of an index: partial indexes, graph patches, package URLs, the cache."""

import sqlite3
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.inventory import imports
from agentjobs.inventory.graph.encoding import (
    FlatGraph,
    pack_flat,
    pack_graph,
    unpack_flat,
    unpack_graph,
)
from agentjobs.inventory.graph.merge import join_graphs, patch_graph
from agentjobs.inventory.index import scan
from agentjobs.inventory.index.analysis import BlobAnalysis, classify, fingerprint
from agentjobs.inventory.index.assembly import dependencies_of, digest_of, languages_of, warnings_of
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.partial_index import TOO_MANY_IMPORTS, PartialIndex, merge
from agentjobs.inventory.model import (
    IndexWarning,
    LanguageLines,
    ModuleGraph,
    ParsedManifest,
    ParsedModule,
    Requirement,
)
from agentjobs.inventory.purl import purl_of

_facts = st.one_of(
    st.builds(BlobAnalysis, st.none()),
    st.builds(BlobAnalysis, st.integers(0, 9)),
    st.builds(BlobAnalysis, st.integers(0, 9), module=st.just(ParsedModule(("a",)))),
    st.builds(BlobAnalysis, st.integers(0, 9), manifest=st.just(ParsedManifest("npm"))),
    st.builds(BlobAnalysis, st.integers(0, 9), warning=st.just("odd")),
    st.none(),
)
_files = st.dictionaries(
    st.integers(0, 99).map(str),
    st.tuples(st.sampled_from(["Go", "Rust", None]), _facts),
    max_size=12,
)


def partial_index_of(files: dict[str, tuple[str | None, BlobAnalysis | None]]) -> PartialIndex:
    partial = PartialIndex()
    for path, (language, facts) in files.items():
        partial.paths.append(path)
        partial.add_file(path, language, facts)
    return partial


@given(_files, st.sets(st.integers(0, 99).map(str)))
def test_partial_indexes_merge_into_the_index_of_all_files(
    files: dict[str, tuple[str | None, BlobAnalysis | None]], chosen: set[str]
) -> None:
    parts = [
        partial_index_of({path: file for path, file in files.items() if (path in chosen) is side})
        for side in (True, False)
    ]
    merged, expected = merge(parts, sorted(files)), partial_index_of(files)
    merged.paths.sort()
    expected.paths.sort()
    assert merged == expected


@given(_files, _facts, _facts)
def test_a_removed_file_leaves_no_trace(
    files: dict[str, tuple[str | None, BlobAnalysis | None]],
    before: BlobAnalysis | None,
    after: BlobAnalysis | None,
) -> None:
    partial = partial_index_of(files | {"x": ("Go", before)})
    if before is not None:
        partial.remove_file("x", "Go", before)
        partial.add_file("x", "Go", after)
        expected = partial_index_of(files | {"x": ("Go", after)})
        assert languages_of(partial) == languages_of(expected)
        partial.languages = expected.languages
        assert partial == expected


_NAMES = [f"f{number}" for number in range(6)]
_imports = st.dictionaries(
    st.sampled_from(_NAMES), st.sets(st.sampled_from([*_NAMES, "x", "y", "z"])), max_size=6
)


def graph_of(imports: dict[str, set[str]]) -> ModuleGraph:
    """As the resolver builds it if every file exists."""
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


def test_a_name_with_the_separator_does_not_shift_other_names() -> None:
    graph = ModuleGraph(("a.js",), (), ("b\0c", "d"), ((0, 0), (0, 1)))
    assert unpack_graph(pack_graph(graph)).externals == ("b\ufffdc", "d")


def test_targets_that_are_not_sources_are_patched() -> None:
    old = ModuleGraph(("a", "data"), ((0, 1),))
    for new in (ModuleGraph(("a", "more"), ((0, 1),)), ModuleGraph(("a",)), old):
        assert patch_graph(flat(old), 1, flat(new), ["a"]) == flat(new)


@given(_imports, st.lists(st.sets(st.sampled_from(_NAMES)), max_size=3), st.sampled_from([0, 4]))
def test_graphs_of_parts_join_into_the_graph_of_all_files(
    sources: dict[str, set[str]], others: list[set[str]], common: int
) -> None:
    """Even if two parts share a source, or an imported file is not a source."""
    paths = [f"{name}.py" for name in _NAMES]
    numbers = {path: at for at, path in enumerate(paths)}
    modules = {f"{name}.py": ParsedModule(tuple(names)) for name, names in sources.items()}
    rest, splits = dict(modules), []
    for other in others:
        splits.append({path: own for path, own in rest.items() if path[:-3] in other})
        rest = {path: own for path, own in rest.items() if path[:-3] not in list(other)[common:]}
    parts = [imports.resolve(split, numbers, {}, {}) for split in [*splits, rest]]
    whole = imports.resolve(modules, numbers, {}, {})
    assert join_graphs(parts, paths) == join_graphs([whole], paths)


def test_the_sources_of_a_graph_precede_other_imported_files() -> None:
    modules = {"b.py": ParsedModule(("a", "c", "os")), "d.py": ParsedModule(("b",))}
    paths = ["a.py", "b.py", "c.py", "d.py"]
    numbers = {path: at for at, path in enumerate(paths)}
    joined = join_graphs([imports.resolve(modules, numbers, {}, {})], paths)
    expected = ModuleGraph(
        ("b.py", "d.py", "a.py", "c.py"), ((0, 2), (0, 3), (1, 0)), ("os",), ((0, 0),)
    )
    assert joined == flat(expected)


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
def test_the_path_determines_language_and_task(path: str, language: str | None, task: str) -> None:
    kind = classify(path.encode(), path)
    assert (kind.language, kind.analyzer.task) == (language, task)


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
    assert len({classify(path.encode(), path).analyzer.key for path in paths}) == len(paths)
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
def test_packages_have_package_urls(
    ecosystem: str, name: str, version: str | None, purl: str
) -> None:
    assert purl_of(ecosystem, name, version) == purl


@given(
    st.sampled_from(["PyPI", "npm", "crates.io", "RubyGems"]),
    st.text("abzAZ09.-_@/+~ é", min_size=1, max_size=6),
    st.text("abZ09.-_+! :", min_size=1, max_size=5),
)
def test_simple_names_are_formatted_like_the_library(
    ecosystem: str, name: str, version: str
) -> None:
    with mock.patch("agentjobs.inventory.purl._SIMPLE", frozenset()):
        expected = purl_of(ecosystem, name, version)
    assert purl_of(ecosystem, name, version) == expected


def test_packages_with_invalid_names_are_left_out_with_a_warning() -> None:
    names = ("good", "nul\0", "line\n", "x" * 2_000, "")
    manifest = ParsedManifest(
        "PyPI", requirements=tuple(Requirement(name, "==1", "1") for name in names)
    )
    combined = dependencies_of(PartialIndex(manifests={"requirements.txt": manifest}))
    assert [package.name for package in combined.dependencies] == ["good"]
    assert "4 packages" in combined.warnings[-1].reason
    assert digest_of(combined.dependencies) != digest_of(())


def test_warnings_are_limited_and_languages_are_sorted() -> None:
    partial = PartialIndex(
        warnings={str(number): "odd" for number in range(300)},
        languages={"C": (1, 5), "Go": (2, 7), "Gone": (0, 0)},
    )
    assert len(warnings_of(partial, ())) == 201
    assert warnings_of(partial, ())[-1].reason == "and 100 more"
    assert languages_of(partial) == (LanguageLines("Go", 2, 7), LanguageLines("C", 1, 5))


def test_the_cache_returns_what_was_put_and_is_recreated_when_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sub" / "facts.db"
    facts = {bytes([number]) * 24: BlobAnalysis(number) for number in range(200)}
    cache = AnalysisCache(path)
    cache.put(facts)
    assert cache.get([*facts, b"unknown"]) == facts
    cache.close()
    monkeypatch.setattr("agentjobs.inventory.index.cache.MAX_BYTES", 1)
    cache = AnalysisCache(path)
    assert cache.get(facts) == {}
    cache.put(facts)
    assert cache.get(facts) == facts
    cache.close()


def test_a_cache_with_another_schema_is_recreated(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    with closing(sqlite3.connect(path)) as older:
        older.execute("CREATE TABLE facts (key BLOB PRIMARY KEY, found TEXT, since TEXT)")
    with closing(AnalysisCache(path)) as cache:
        cache.put({b"key": BlobAnalysis(1)})
        assert cache.get([b"key"]) == {}
    with closing(AnalysisCache(path)) as cache:
        cache.put({b"key": BlobAnalysis(1)})
        assert cache.get([b"key"]) == {b"key": BlobAnalysis(1)}


def test_a_lookup_does_not_read_large_values_of_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    with closing(AnalysisCache(path)) as cache:
        cache.put({b"m" * 24: BlobAnalysis(1, content=bytes(1_000_000))})
    with closing(sqlite3.connect(path)) as reading:
        (plan,) = reading.execute("EXPLAIN QUERY PLAN SELECT facts FROM facts WHERE key = ''")
        assert "INDEX" in plan[3]
        assert "PRIMARY KEY" not in plan[3]


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = AnalysisCache(tmp_path / "file" / "facts.db")
    cache.put({b"key": BlobAnalysis(1)})
    assert cache.get([b"key"]) == {}
    assert cache.get_state("repo_x") is None
    cache.close()


@pytest.mark.parametrize(("limit", "is_warned"), [(1, True), (9, False)])
def test_an_incomplete_graph_is_a_warning(monkeypatch, limit: int, is_warned: bool) -> None:
    monkeypatch.setattr(imports.module_graph, "MAX_EDGES", limit)
    plan = [scan.plan_file(path, path[:1].hex().encode()) for path in (b"a.py", b"b.py")]
    analysis = BlobAnalysis(lines=1, module=ParsedModule(("a", "b", "os")))
    context = scan.ResolutionContext({"a.py": 0, "b.py": 1}, {}, {})
    partial = scan._build_partial_index(plan, {file.key: analysis for file in plan}, context)
    warnings = warnings_of(partial, ())
    assert warnings == ((IndexWarning("", TOO_MANY_IMPORTS),) if is_warned else ())
