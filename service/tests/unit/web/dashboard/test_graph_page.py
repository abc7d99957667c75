"""/repos/{owner}/{name}/graph: a map of the repository, or the neighbors of a module."""

import pytest

from agentjobs_dependencies.graph.encoding import pack_graph
from agentjobs_dependencies.imports.model import ModuleGraph
from tests.support.repo_rows import write_repos
from tests.support.users import write

HERE = "/repos/acme/shop/graph"


SHOP = ModuleGraph(
    files=("src/shop/app.py", "src/shop/cart/lines.py", "src/shop/cart/totals.py", "src/shop/x.py"),
    edges=((0, 1), (1, 2), (2, 1), (2, 3)),
    externals=("os", "requests"),
    external_edges=((0, 0), (2, 1)),
)


async def store_graph(dashboard, graph):
    await write(
        dashboard.db,
        "UPDATE repo_graphs SET data = :data, commit_id = :commit",
        data=pack_graph(graph),
        commit=str(len(graph.files)),
    )


def boxes(page):
    """The titles of the boxes in the first drawing, with their addresses."""
    links = [attributes for tag, attributes in page.tags if "data-node" in attributes]
    return [(each.get("data-node"), each.get("href")) for each in links]


async def test_the_page_opens_with_a_map_and_the_most_imported_modules(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    assert "3 files with 2 imports between them, and 1 external name." in page.text
    assert "src/shop.py imported by 1 file" in page.text
    assert {f"{HERE}?focus=src%2Fshop.py", f"{HERE}?external=requests"} <= set(page.links)
    assert "shop.py, imports 2, imported by 1" in page.text
    assert "Names leave out src/" in page.text
    # Three files and the packages of PyPI, in a wide and in a narrow drawing.
    assert [number for number, _ in boxes(page)] == ["0", "1", "2", "3"] * 2
    assert boxes(page)[3][1] == "/repos/acme/shop/dependencies?ecosystem=PyPI"


async def test_a_table_has_the_same_boxes_with_their_imports(sample_dashboard):
    await store_graph(sample_dashboard, SHOP)
    page = await sample_dashboard.viewer.open(HERE)
    assert "cart/lines.py in a cycle 1 cart/totals.py app.py, cart/totals.py" in page.text
    assert "closes an import cycle" in page.text
    assert "os imported by" not in page.text, "without the standard library"


async def test_a_folder_opens_with_the_way_to_it(sample_dashboard):
    await store_graph(sample_dashboard, SHOP)
    page = await sample_dashboard.viewer.open(f"{HERE}?folder=src/shop/cart")
    assert "Repository / src / shop / cart folder" in page.text
    assert {HERE, f"{HERE}?folder=src", f"{HERE}?folder=src%2Fshop"} <= set(page.links)
    assert "lines.py, imports 1, imported by 1, part of an import cycle" in page.text


async def test_a_path_with_many_folders_makes_no_large_page(sample_dashboard):
    deep = "/".join(["d"] * 1_900)
    files = tuple(f"{deep}/{'n' * 200}{at}.py" for at in range(60))
    edges = tuple((start, end) for start in range(60) for end in range(60))
    await store_graph(sample_dashboard, ModuleGraph(files=files, edges=edges))
    for query in ("", f"?folder={deep}", f"?focus={files[0]}", "?q=d"):
        page = await sample_dashboard.viewer.open(HERE + query)
        assert page.status == 200
        assert len(page.html) < 3_000_000


async def test_a_large_repository_has_a_bounded_number_of_boxes(sample_dashboard):
    count = 27_000
    files = tuple(f"src/p{at // 90:03}/d{at % 9}/m{at:05}.py" for at in range(count))
    edges = tuple((at, (at * 7 + 11) % count) for at in range(count))
    await store_graph(sample_dashboard, ModuleGraph(files=files, edges=edges))
    page = await sample_dashboard.viewer.open(HERE)
    assert len(boxes(page)) <= 2 * 41
    assert "files with few imports share one box" in page.text
    assert "other files" in page.text


async def test_folders_and_modules_are_found_by_part_of_their_name(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    results = await sample_dashboard.viewer.send(page, "/graph", q="REQ")
    assert "1 result for “REQ”" in results.text
    assert f"{HERE}?external=requests" in results.links
    folders = await sample_dashboard.viewer.send(page, "/graph", q="Src")
    assert "src/ 3 files" in folders.text
    assert f"{HERE}?folder=src" in folders.links
    assert "No results" in (await sample_dashboard.viewer.send(page, "/graph", q="xyz")).text


async def test_a_module_lists_all_its_neighbours(sample_dashboard):
    # Older links have `node`.
    for parameter in ("focus", "node"):
        page = await sample_dashboard.viewer.open(f"{HERE}?{parameter}=src/shop.py")
        neighbors = {"focus=src%2Fcart.py", "focus=src%2Ftax.py", "external=requests"}
        assert {f"{HERE}?{each}" for each in neighbors} <= set(page.links)
        assert "Imported by 1 src/cart.py Imports 1 src/tax.py" in page.text
    page = await sample_dashboard.viewer.open(f"{HERE}?external=requests")
    assert "Imported by 1 src/shop.py" in page.text
    assert "Repository / requests external module" in page.text
    assert "/repos/acme/shop/dependencies?q=requests" in page.links


@pytest.mark.parametrize("query", ["focus=gone.py", "external=gone", "folder=gone"])
async def test_an_unknown_node_shows_an_error_and_other_nodes(sample_dashboard, query):
    page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
    assert page.status == 404
    assert "indexed commit" in page.text
    assert HERE in page.links


async def test_before_the_first_index_there_is_no_graph(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM repo_graphs")
    for query in ("", "?node=src/shop.py", "?q=shop"):
        page = await sample_dashboard.viewer.open(HERE + query)
        assert page.status == 200
        assert "No graph yet" in page.text


async def test_a_failed_index_says_why_and_leads_on(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM repo_graphs")
    await write_repos(sample_dashboard.db, "index_error = 'The commit is too large.'")
    page = await sample_dashboard.viewer.open(HERE)
    assert "The index failed and is retried: The commit is too large." in page.text
    assert "/repos/acme/shop" in page.links


async def test_a_repository_without_modules_says_what_is_read(sample_dashboard):
    await store_graph(sample_dashboard, ModuleGraph())
    page = await sample_dashboard.viewer.open(HERE)
    assert "No modules found" in page.text


async def test_neighbours_beyond_the_limit_are_counted(sample_dashboard):
    files = tuple(f"pkg/m{at:04}.py" for at in range(700))
    graph = ModuleGraph(
        files=files,
        edges=tuple((at, 0) for at in range(1, 700)),
        externals=tuple(f"x{at:02}" for at in range(30)),
        external_edges=tuple((0, at) for at in range(30)),
    )
    await store_graph(sample_dashboard, graph)
    page = await sample_dashboard.viewer.open(f"{HERE}?focus={files[0]}")
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert {"importers", "imported", "externals"} <= ids
    assert "Imported by 699" in page.text
    assert "and 199 more; search for them by name above." in page.text
