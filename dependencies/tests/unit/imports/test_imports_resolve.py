"""Resolving imports to files by paths, manifests and configurations."""

import pytest

from agentjobs_dependencies.imports import is_config, is_full, module_graph, resolve
from agentjobs_dependencies.imports.model import ParsedModule
from agentjobs_dependencies.model import ParsedManifest

Names = dict[str, list[str]]


def resolve_targets(
    files: Names,
    others: tuple[str, ...] = (),
    manifests: dict[str, ParsedManifest] | None = None,
    configs: dict[str, bytes] | None = None,
) -> dict[str, list[str]]:
    """Returns the targets of each importing file; external targets are in brackets."""
    facts = {path: ParsedModule(tuple(names)) for path, names in files.items()}
    graph = resolve(facts, {*files, *others}, manifests or {}, configs or {})
    targets: dict[str, list[str]] = {}
    for start, end in graph.edges:
        targets.setdefault(graph.files[start], []).append(graph.files[end])
    for start, end in graph.external_edges:
        targets.setdefault(graph.files[start], []).append(f"[{graph.externals[end]}]")
    return targets


def project(ecosystem: str, name: str, **notes: str) -> ParsedManifest:
    return ParsedManifest(ecosystem, project=name, notes=notes)


@pytest.mark.parametrize(
    ("others", "name", "place"),
    [
        (("a/__init__.py", "a/b.py"), "a.b", ["a/b.py"]),
        (("a/__init__.py",), "a", ["a/__init__.py"]),
        (("a/__init__.py", "a/b.py"), "a:b,C", ["a/__init__.py", "a/b.py"]),
        (("a/__init__.py", "a/b.py"), "a:b", ["a/b.py"]),
        (("a/__init__.py", "a/b.py"), "a.b:C", ["a/b.py"]),
        (("a/__init__.py",), "a:*", ["a/__init__.py"]),
        (("a/__init__.py", "a.py"), "a", ["a/__init__.py"]),
        (("ns/b/__init__.py",), "ns.b:c", ["ns/b/__init__.py"]),
        (("ns/b.py",), "ns:b", ["ns/b.py"]),
        (("ns/b.py",), "ns", ["[ns]"]),
        (("a/__init__.py",), "a.native", ["a/__init__.py"]),
        (("src/a/__init__.py",), "a", ["src/a/__init__.py"]),
        (("packages/x/src/a/__init__.py",), "a", ["packages/x/src/a/__init__.py"]),
        (("b/c.py",), "c", ["[c]"]),
        (("a.pyi",), "a", ["a.pyi"]),
        (("a.pyi", "a.py"), "a", ["a.py"]),
        ((), "os.path", ["[os]"]),
        ((), ".:nothing", ["[nothing]"]),
        ((), "..a:b", ["[..a]"]),
        (("d/__init__.py",), ".d:e", ["d/__init__.py"]),
    ],
)
def test_python_names_resolve_to_modules(others, name, place):
    assert resolve_targets({"main.py": [name]}, others).get("main.py", []) == place


@pytest.mark.parametrize(
    ("path", "name", "place"),
    [
        ("src/p/a.py", ".:b", "src/p/b.py"),
        ("src/p/a.py", ".b:C", "src/p/b.py"),
        ("src/p/q/c.py", "..b:C", "src/p/b.py"),
        ("src/p/q/c.py", "..:b", "src/p/b.py"),
        ("src/p/q/c.py", "...p.b:C", "src/p/b.py"),
        ("src/p/q/c.py", "..:C", "src/p/__init__.py"),
        ("src/p/a.py", "json", "[json]"),
        ("scripts/run.py", "json", "scripts/json.py"),
        ("tests/unit/test_a.py", "support", "tests/support.py"),
        ("tests/unit/test_a.py", "p.q.c", "src/p/q/c.py"),
        ("src/p/a.py", "._native:x", "[src/p/_native]"),
    ],
)
def test_python_resolves_names_from_the_directory_of_the_file(path, name, place):
    others = ("__init__", "a", "b", "json", "q/__init__", "q/c")
    tree = {f"src/p/{other}.py": [] for other in others} | {"scripts/json.py": []}
    tree |= {"tests/support.py": [], path: [name]}
    assert resolve_targets(tree)[path] == [place]


def test_python_finds_packages_of_every_project_in_the_repository():
    manifests = {"libs/one/pyproject.toml": project("PyPI", "one")}
    files = {"libs/one/one/__init__.py": [], "app/main.py": ["one", "two"], "libs/x/two.py": []}
    assert resolve_targets(files, manifests=manifests)["app/main.py"] == [
        "libs/one/one/__init__.py",
        "[two]",
    ]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("./b", "web/b.ts"),
        ("./b.js", "web/b.ts"),
        ("./b.ts", "web/b.ts"),
        ("./c", "web/c/index.tsx"),
        ("../shared/d.mjs", "shared/d.mts"),
        ("./data.json", "web/data.json"),
        ("./style.css?inline", "web/style.css"),
        (".", "web/index.js"),
        ("./gone", "[web/gone]"),
        ("../../out", "[../out]"),
        ("react", "[react]"),
        ("lodash/fp", "[lodash]"),
        ("@a/b/c", "[@a/b]"),
        ("node:fs", "[node:fs]"),
        ("https://x.example/y.js", "[https://x.example/y.js]"),
    ],
)
def test_javascript_names_resolve_to_files(name, place):
    others = ("b.ts", "c/index.tsx", "data.json", "style.css", "index.js")
    targets = resolve_targets(
        {"web/a.ts": [name], "shared/d.mts": []}, tuple(f"web/{other}" for other in others)
    )
    assert targets["web/a.ts"] == [place]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("@/x", "app/src/x.ts"),
        ("@lib", "lib/start.ts"),
        ("x", "app/src/x.ts"),
        ("deep/y.gen", "gen/y.ts"),
        ("@/none", "[@/none]"),
    ],
)
def test_javascript_aliases_of_the_nearest_configuration_apply(name, place):
    base = b"""{ // a comment, and "paths" with a comma too many
      "compilerOptions": { "baseUrl": "./app/src", "paths": {
        "@/*": ["./no/*", "./*"], "@lib": ["../../lib/start"], "deep/*.gen": ["../../gen/*"], } },
    }"""
    configs = {"tsconfig.base.json": base, "app/tsconfig.json": b'{"extends": "../tsconfig.base"}'}
    files = {"app/src/deep/a.ts": [name], "app/src/x.ts": [], "lib/start.ts": [], "gen/y.ts": []}
    assert resolve_targets(files, configs=configs)["app/src/deep/a.ts"] == [place]
    assert all(is_config(path) for path in configs)


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        # Strings and comments without an end, which take time if each is read to the end.
        b'\\"' * 500_000,
        b"/*a" * 300_000,
        b'{"extends": "./tsconfig.json"}',
        b'{"compilerOptions": {"paths": {"*": 1, "b": [1, "./x"]}, "baseUrl": 1}}',
        b'{"compilerOptions": [], "extends": {}}',
    ],
)
def test_a_broken_configuration_has_no_aliases(config):
    targets = resolve_targets({"a.ts": ["b"]}, configs={"tsconfig.json": config})
    assert targets["a.ts"] == ["[b]"]


def test_javascript_finds_packages_of_the_same_repository():
    manifests = {
        "packages/ui/package.json": project("npm", "@my/ui"),
        "packages/core/package.json": project("npm", "core", main="./start.js"),
    }
    files = {
        "app/a.js": ["@my/ui", "@my/ui/button", "core", "core/none"],
        "packages/ui/src/index.ts": [],
        "packages/ui/src/button.tsx": [],
        "packages/core/start.js": [],
    }
    assert resolve_targets(files, manifests=manifests)["app/a.js"] == [
        "packages/core/start.js",
        "packages/ui/src/button.tsx",
        "packages/ui/src/index.ts",
        "[core]",
    ]


def test_go_names_resolve_to_the_first_file_of_a_package():
    manifests = {
        "go.mod": project("Go", "x.example/m"),
        "sub/go.mod": project("Go", "x.example/m/v2"),
    }
    files = {
        "main.go": ["x.example/m/a", "x.example/m/v2", "x.example/m/none", "fmt", "C"],
        "a/a_test.go": ["x.example/m"],
        "a/c.go": [],
        "a/b.go": [],
        "sub/s.go": ["x.example/m/v2/t"],
        "sub/t/t.go": [],
    }
    assert resolve_targets(files, manifests=manifests) == {
        "main.go": ["a/b.go", "sub/s.go", "[fmt]", "[x.example/m/none]"],
        "a/a_test.go": ["main.go"],
        "sub/s.go": ["sub/t/t.go"],
    }


def test_relative_go_names_resolve_from_their_directory():
    files = {"a.go": ["./a"], "a/a.go": [], "b/a.go": ["./a"]}
    assert resolve_targets(files) == {"a.go": ["a/a.go"], "b/a.go": ["[./a]"]}


def test_java_names_resolve_to_the_nearest_class_of_that_name():
    files = {
        "one/src/main/java/a/b/C.java": [
            "a.b.D",
            "a.b.D.Inner",
            "static a.b.E.f",
            "java.util.List",
        ],
        "one/src/main/java/a/b/D.java": ["a.c.*", "java.io.*", "static org.x.Y.*", "lower.case"],
        "one/src/main/java/a/b/E.java": [],
        "one/src/main/java/a/c/F.java": [],
        "one/src/main/java/a/c/G.java": ["E"],
        "two/src/main/java/a/b/D.java": [],
        "two/src/main/java/z/Z.java": ["a.b.D", "a.b.E"],
    }
    assert resolve_targets(files) == {
        "one/src/main/java/a/b/C.java": [
            "one/src/main/java/a/b/D.java",
            "one/src/main/java/a/b/E.java",
            "[java.util]",
        ],
        "one/src/main/java/a/b/D.java": [
            "one/src/main/java/a/c/F.java",
            "[java.io]",
            "[lower]",
            "[org.x]",
        ],
        "one/src/main/java/a/c/G.java": ["[E]"],
        "two/src/main/java/z/Z.java": [
            "one/src/main/java/a/b/E.java",
            "two/src/main/java/a/b/D.java",
        ],
    }


@pytest.mark.parametrize(
    ("path", "name", "place"),
    [
        ("one/src/lib.rs", "mod:a", ["one/src/a.rs"]),
        ("one/src/lib.rs", "mod:b", ["one/src/b/mod.rs"]),
        ("one/src/lib.rs", "mod:gone", ["[one/src/gone]"]),
        ("one/src/lib.rs", "mod:x=b/c.rs", ["one/src/b/c.rs"]),
        ("one/src/lib.rs", "a::X", ["one/src/a.rs"]),
        ("one/src/a.rs", "mod:d", ["one/src/a/d.rs"]),
        ("one/src/a.rs", "crate::b::c::X", ["one/src/b/c.rs"]),
        ("one/src/a.rs", "crate::X", ["one/src/lib.rs"]),
        ("one/src/a.rs", "self::d::X", ["one/src/a/d.rs"]),
        ("one/src/a.rs", "self::*", []),
        ("one/src/a.rs", "super::b", ["one/src/b/mod.rs"]),
        ("one/src/a/d.rs", "super::X", ["one/src/a.rs"]),
        ("one/src/a/d.rs", "super::super::b::c", ["one/src/b/c.rs"]),
        ("one/src/b/mod.rs", "super::X", ["one/src/lib.rs"]),
        ("one/src/b/c.rs", "super::X", ["one/src/b/mod.rs"]),
        ("one/src/a.rs", "two_x::e::F", ["two/src/e.rs"]),
        ("one/src/a.rs", "::two_x", ["two/src/lib.rs"]),
        ("one/tests/t.rs", "mod:common", ["one/tests/common/mod.rs"]),
        ("one/tests/t.rs", "crate::common", ["one/tests/common/mod.rs"]),
        ("one/src/a.rs", "std::io", ["[std]"]),
        ("one/src/a.rs", "::serde", ["[serde]"]),
        ("one/src/a.rs", "serde::de::X", ["[serde]"]),
        ("one/src/a.rs", "Shape::*", []),
    ],
)
def test_rust_paths_resolve_to_modules(path, name, place):
    manifests = {
        "one/Cargo.toml": project("crates.io", "one"),
        "two/Cargo.toml": project("crates.io", "two-x"),
    }
    others = ("lib", "a", "a/d", "b/mod", "b/c")
    tree = {f"one/src/{other}.rs": [] for other in others}
    tree |= {"one/tests/common/mod.rs": [], "two/src/lib.rs": [], "two/src/e.rs": []}
    assert resolve_targets(tree | {path: [name]}, manifests=manifests).get(path, []) == place


def test_files_are_sorted_and_edges_are_distinct():
    facts = {
        "b.py": ParsedModule(("a", "a:x", "os", "os:path")),
        "a.py": ParsedModule(("b", "a")),
        "c.ts": ParsedModule(("./z.json", "./y.json")),
        "d.c": ParsedModule(("unknown",)),
    }
    graph = resolve(facts, {*facts, "y.json", "z.json"}, {}, {})
    assert graph.files == ("a.py", "b.py", "c.ts", "d.c", "y.json", "z.json")
    assert graph.edges == ((0, 1), (1, 0), (2, 4), (2, 5))
    assert graph.externals == ("os",)
    assert graph.external_edges == ((1, 0),)


def test_some_files_alone_resolve_as_among_all_files():
    files = {"src/p/__init__.py": [], "src/p/a.py": ["p.b", "os"], "src/p/b.py": [".a"]}
    assert resolve_targets({"src/p/a.py": files["src/p/a.py"]}, tuple(files)) == {
        "src/p/a.py": ["src/p/b.py", "[os]"]
    }


def test_deep_paths_are_resolved():
    deep = "d/" * 2_000
    files = {
        f"{deep}a.py": ["b", "..c:d"],
        f"{deep}a.ts": ["b", "./c"],
        f"{deep}a.rs": ["crate::b", "super::c"],
    }
    assert {path.rpartition(".")[2] for path in resolve_targets(files)} == {"py", "ts"}


@pytest.mark.parametrize(("limit", "kept", "full"), [(3, 3, True), (5, 5, True), (7, 6, False)])
def test_a_graph_is_full_when_edges_are_left_out(monkeypatch, limit, kept, full):
    monkeypatch.setattr(module_graph, "MAX_EDGES", limit)
    files = {f"{name}.py": ParsedModule(("a", "b", "c", "os")) for name in "ab"}
    graph = resolve(files, files, {}, {})
    assert len(graph.edges) + len(graph.external_edges) == kept
    assert is_full(graph) is full


@pytest.mark.parametrize(
    ("path", "name"), [("a.py", "a." * 500_000 + "a"), ("a.go", "a/" * 500_000 + "a")]
)
def test_an_import_longer_than_any_path_is_left_out(path, name):
    assert resolve_targets({path: [name, "b"]})[path] == ["[b]"]
