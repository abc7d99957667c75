"""Parts of an index: graphs, package URLs, warnings, the cache of poms."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.inventory.index.pom_cache import PomCache
from agentjobs.inventory.index.scan import classify_file, scan_commit
from agentjobs_dependencies import imports
from agentjobs_dependencies.graph.encoding import pack_graph, unpack_graph
from agentjobs_dependencies.imports.model import ModuleGraph, ParsedModule
from agentjobs_dependencies.index.assembly import (
    collect_warnings,
    combine_dependencies,
    digest_dependencies,
    list_languages,
)
from agentjobs_dependencies.index.commit_index import TOO_MANY_IMPORTS, CommitIndex
from agentjobs_dependencies.languages import LanguageLines
from agentjobs_dependencies.model import IndexWarning, ParsedManifest, Requirement
from agentjobs_dependencies.purl import format_purl
from agentjobs_runtime.git.blocking import list_files
from tests.support.indexing import index_setup


def test_a_graph_of_an_earlier_version_is_none_until_the_next_index() -> None:
    columns = zlib.compress(msgspec.msgpack.encode(("a.py", b"", b"", "os", b"", b"")))
    assert unpack_graph(columns) is None


def test_the_sources_of_a_graph_precede_other_imported_files() -> None:
    modules = {"b.py": ParsedModule(("a", "c", "os")), "d.py": ParsedModule(("b",))}
    paths = ["a.py", "b.py", "c.py", "d.py"]
    graph = ModuleGraph(
        ("b.py", "d.py", "a.py", "c.py"), ((0, 2), (0, 3), (1, 0)), ("os",), ((0, 0),)
    )
    assert imports.resolve(modules, paths, {}, {}) == graph
    assert unpack_graph(pack_graph(graph)) == graph


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
    kind = classify_file(path.encode(), path)
    assert (kind.language, kind.task) == (language, task)


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
    assert format_purl(ecosystem, name, version) == purl


@given(
    st.sampled_from(["PyPI", "npm", "crates.io", "RubyGems"]),
    st.text("abzAZ09.-_@/+~ é", min_size=1, max_size=6),
    st.text("abZ09.-_+! :", min_size=1, max_size=5),
)
def test_simple_names_are_formatted_like_the_library(
    ecosystem: str, name: str, version: str
) -> None:
    with mock.patch("agentjobs_dependencies.purl._SIMPLE", frozenset()):
        expected = format_purl(ecosystem, name, version)
    assert format_purl(ecosystem, name, version) == expected


def test_packages_with_invalid_names_are_left_out_with_a_warning() -> None:
    names = ("good", "nul\0", "line\n", "x" * 2_000, "")
    manifest = ParsedManifest(
        "PyPI", requirements=tuple(Requirement(name, "==1", "1") for name in names)
    )
    combined = combine_dependencies(CommitIndex(manifests={"requirements.txt": manifest}))
    assert [package.name for package in combined.dependencies] == ["good"]
    assert "4 packages" in combined.warnings[-1].reason
    assert digest_dependencies(combined.dependencies) != digest_dependencies(())


def test_warnings_are_limited_and_languages_are_sorted() -> None:
    index = CommitIndex(
        warnings={str(number): "odd" for number in range(300)},
        languages={"C": (1, 5), "Go": (2, 7), "Gone": (0, 0)},
    )
    assert len(collect_warnings(index, ())) == 201
    assert collect_warnings(index, ())[-1].reason == "and 100 more"
    assert list_languages(index) == (LanguageLines("Go", 2, 7), LanguageLines("C", 1, 5))


def poms_of(path: Path) -> PomCache:
    return PomCache(path, "https://maven.example")


POM = ParsedManifest("Maven", project="org.a:b")


def test_the_cache_of_poms_returns_what_was_stored_and_is_recreated_when_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sub" / "poms.db"
    poms_of(path).store({"org.a:b:1": POM})
    assert poms_of(path).load("org.a:b:1") == POM
    assert poms_of(path).load("org.a:b:2") is None
    assert PomCache(path, "https://other.example").load("org.a:b:1") is None
    monkeypatch.setattr("agentjobs.inventory.index.pom_cache.MAX_BYTES", 1)
    assert poms_of(path).load("org.a:b:1") is None
    monkeypatch.undo()
    poms_of(path).store({"org.a:b:1": POM})
    assert poms_of(path).load("org.a:b:1") == POM


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"not a database"),
        lambda path: path.write_bytes(path.read_bytes()[:5_000]),
        lambda path: path.write_bytes(path.read_bytes()[:4_096] + os.urandom(100_000)),
    ],
    ids=["other bytes", "cut off", "other pages"],
)
def test_a_damaged_cache_of_poms_is_recreated(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = tmp_path / "poms.db"
    poms_of(path).store({"org.a:b:1": POM})
    damage(path)
    for _ in range(2):
        assert poms_of(path).load("org.a:b:1") is None
    poms_of(path).store({"org.a:b:1": POM})
    assert poms_of(path).load("org.a:b:1") == POM


def test_a_cache_of_poms_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "poms.db").mkdir()
    for path in (tmp_path / "file" / "poms.db", tmp_path / "poms.db"):
        poms_of(path).store({"org.a:b:1": POM})
        assert poms_of(path).load("org.a:b:1") is None


@pytest.mark.parametrize(("limit", "is_warned"), [(1, True), (9, False)])
def test_an_incomplete_graph_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, is_warned: bool
) -> None:
    monkeypatch.setattr(imports.module_graph, "MAX_EDGES", limit)
    setup = index_setup(tmp_path)
    setup.commit({"a.py": b"import b, os\n", "b.py": b"import a, os\n"})
    index = scan_commit(setup.git_dir, list_files(setup.git_dir, "HEAD"), lambda *_: None)
    warnings = collect_warnings(index, ())
    assert warnings == ((IndexWarning("", TOO_MANY_IMPORTS),) if is_warned else ())
