"""Maps of a repository: files grouped by folder, imports between groups, folded externals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs_dependencies.graph.folders import (
    MAX_GROUPS,
    common_folder,
    files_in,
    group_files,
    search_folders,
)
from agentjobs_dependencies.graph.package_map import count_external_names, map_folder
from agentjobs_dependencies.graph.standard_library import is_standard
from agentjobs_dependencies.imports.model import ModuleGraph

NAMES = st.sampled_from(["a", "b", "tests", "core"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def paths_of(files):
    return [group.path for group in group_files(files, range(len(files)), ())]


@settings(max_examples=100, deadline=None)
@given(st.sets(PATHS.map(lambda path: f"{path}.py"), max_size=80), st.integers(4, 50))
def test_every_file_is_in_one_group_and_groups_fit_the_limit(names, limit):
    files = sorted(names)
    groups = group_files(files, range(len(files)), (), limit)
    assert sorted(at for group in groups for at in group.files) == list(range(len(files)))
    assert len(groups) <= limit
    assert len({group.path for group in groups}) == len(groups)
    for group in groups:
        if group.path and not group.is_file:
            assert set(group.files) <= set(files_in(files, group.path))


def test_the_files_of_a_small_repository_are_nodes_themselves():
    files = ["app.py", "core/base.py", "core/deep/down.py"]
    assert paths_of(files) == files


def test_large_folders_are_divided_until_there_are_enough_groups():
    files = [f"src/shop/{'abcdefghijklm'[at % 13]}/m{at:03}.py" for at in range(200)]
    files += [f"src/shop/m{at}.py" for at in range(9)] + [f"tests/t{at:03}.py" for at in range(300)]
    groups = paths_of(files)
    assert {f"src/shop/{name}" for name in "abcdefghijklm"} <= set(groups), "no single files"
    assert {"src/shop/*", "tests"} <= set(groups)


def test_a_flat_folder_shows_its_most_linked_files():
    files = [f"m{at:03}.py" for at in range(500)]
    groups = group_files(files, range(500), [(7, 444), (444, 7)])
    assert {"m007.py", "m444.py"} <= {group.path for group in groups}
    assert len(groups[-1].files) == 500 - (MAX_GROUPS - 1)
    assert groups[-1].path == ""


def test_a_large_folder_with_too_many_parts_shows_the_most_linked_ones():
    files = [f"internal/p{at // 4:03}/f{at}.go" for at in range(400)]
    files += ["main.go", "tools/a.go", "tools/b.go"]
    groups = group_files(files, range(len(files)), [(0, 399), (400, 399)])
    paths = [group.path for group in groups]
    assert {"internal/p000", "internal/p099", "main.go", "tools"} <= set(paths)
    assert "internal" in paths, "the rest of the folder"
    assert len(groups) == MAX_GROUPS


def test_other_files_have_no_links():
    files = tuple(f"m{at:03}.py" for at in range(500))
    graph = ModuleGraph(files=files, edges=tuple((at, 0) for at in range(1, 500)))
    whole = map_folder(graph)
    (rest,) = (at for at, node in enumerate(whole.nodes) if node.kind == "rest")
    assert (whole.nodes[rest].label, whole.nodes[rest].size) == ("other files", 461)
    assert not [link for link in whole.links if rest in link]


def test_folders_are_found_by_a_part_of_their_own_name():
    files = ["src/Api/a.py", "src/Api/deep/b.py", "src/capital/c.py", "tests/api/d.py", "e.py"]
    assert search_folders(files, "api", 9) == {"src/Api": 2, "src/capital": 1, "tests/api": 1}
    assert search_folders(files, " SRC ", 9) == {"src": 3}
    assert list(search_folders(files, "api", 1)) == ["src/Api"]


def test_files_directly_in_a_folder_are_addressed_with_a_star():
    files = ["a.py", "x/b.py", "x/y/c.py", "xy/d.py"]
    assert files_in(files, "x") == [1, 2]
    assert files_in(files, "x/*") == [1]
    assert files_in(files, "*") == [0]
    assert files_in(files, "") == [0, 1, 2, 3]
    assert files_in(files, "gone") == []


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["src/a/b", "src/a/c", "src/a/d", "tests"], "src/a/"),
        (["src/b", "src/a/c", "src/a/d", "tests"], "src/"),
        (["src/a/b", "src/a/c", "src/d"], "src/"),
        (["src/a/b", "tests"], ""),
        (["a.py"], ""),
        ([], ""),
    ],
)
def test_the_common_folder_has_most_of_the_paths(paths, expected):
    assert common_folder(paths) == expected


# app imports shop and cart, cart imports tax and the other way around; the rest is external.
GRAPH = ModuleGraph(
    files=("src/app.py", "src/cart/lines.py", "src/cart/totals.py", "src/tax.py", "web/main.ts"),
    edges=((0, 1), (0, 2), (1, 2), (2, 3), (3, 1)),
    externals=("fs", "os", "react", "requests"),
    external_edges=((0, 1), (0, 3), (2, 3), (3, 1), (4, 0), (4, 2)),
)


def named(package_map):
    names = [node.label for node in package_map.nodes]
    return {(names[start], names[end]): n for (start, end), n in package_map.links.items()}


def test_a_map_counts_imports_and_folds_externals_by_ecosystem():
    whole = map_folder(GRAPH)
    assert whole.prefix == "src/"
    assert [(node.label, node.kind, node.size) for node in whole.nodes] == [
        ("app.py", "file", 1),
        ("cart/lines.py", "file", 1),
        ("cart/totals.py", "file", 1),
        ("tax.py", "file", 1),
        ("web/main.ts", "file", 1),
        ("npm", "external", 1),
        ("PyPI", "external", 1),
    ]
    assert named(whole)["app.py", "PyPI"] == 1
    assert ("tax.py", "PyPI") not in named(whole), "os belongs to the standard library"


def test_a_folder_is_mapped_alone():
    inside = map_folder(GRAPH, "src/cart")
    assert [node.label for node in inside.nodes] == ["lines.py", "totals.py", "PyPI"]
    assert named(inside) == {("lines.py", "totals.py"): 1, ("totals.py", "PyPI"): 1}
    assert map_folder(GRAPH, "gone") is None
    assert map_folder(ModuleGraph()) is None


def test_external_names_are_counted_without_standard_libraries():
    assert count_external_names(GRAPH) == {"react": 1, "requests": 2}


@pytest.mark.parametrize(
    ("family", "standard", "other"),
    [
        ("python", "collections", "requests"),
        ("javascript", "node:fs", "react"),
        ("javascript", "worker_threads", "lodash"),
        ("go", "net/http", "github.com/spf13/cobra"),
        ("java", "java.util", "org.junit"),
        ("rust", "std", "tokio"),
        ("rust", "core", "futures_core"),
    ],
)
def test_the_standard_library_of_each_language_is_known(family, standard, other):
    assert is_standard(family, standard)
    assert not is_standard(family, other)
    assert not is_standard("cobol", standard)
