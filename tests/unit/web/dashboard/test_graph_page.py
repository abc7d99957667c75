"""/repos/{owner}/{name}/graph: one node at a time, as a drawing and as lists."""

import pytest

from agentjobs.inventory.graph.encoding import pack_graph
from agentjobs.inventory.model import ModuleGraph
from tests.support.users import write

HERE = "/repos/acme/shop/graph"


async def test_without_a_node_the_page_lists_the_most_imported_modules(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    assert "3 files with 2 imports between them, and 1 external name." in page.text
    assert "src/shop.py imported by 1 file" in page.text
    assert {f"{HERE}?node=src%2Fshop.py", f"{HERE}?external=requests"} <= set(page.links)


@pytest.mark.parametrize(
    ("query", "left", "right"),
    [
        ("node=src/shop.py", ["node=src%2Fcart.py"], ["node=src%2Ftax.py", "external=requests"]),
        ("external=requests", ["node=src%2Fshop.py"], []),
        ("ecosystem=PyPI&package=requests", [], ["ecosystem=PyPI&package=urllib3"]),
        ("ecosystem=PyPI&package=urllib3", ["ecosystem=PyPI&package=requests"], []),
    ],
)
async def test_a_node_links_to_all_its_neighbours(sample_dashboard, query, left, right):
    page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
    assert page.status == 200
    around = [link.removeprefix(f"{HERE}?") for link in page.links if link.startswith(f"{HERE}?")]
    # In the wide drawing, in the narrow drawing and in the lists.
    assert around == [*left, *right] * 3
    assert not [
        attributes for tag, attributes in page.tags if tag == "script" and "src" not in attributes
    ]


async def test_a_package_shows_its_versions_and_vulnerabilities(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}?ecosystem=PyPI&package=requests")
    finding = "2.30.0 in requirements.txt · critical 9.8 GHSA-aaaa-bbbb-cccc · 2.31.0 fixes this"
    assert finding in page.text
    assert "/repos/acme/shop/dependencies?manifest=requirements.txt" in page.links
    assert any("bad" in (attributes.get("class") or "") for _, attributes in page.tags)


async def test_modules_and_packages_are_found_by_part_of_their_name(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    results = await sample_dashboard.viewer.send(page, "/graph", q="REQ")
    assert "2 results for “REQ”" in results.text
    assert f"{HERE}?external=requests" in results.links
    assert f"{HERE}?ecosystem=PyPI&package=requests" in results.links
    assert "No results" in (await sample_dashboard.viewer.send(page, "/graph", q="xyz")).text


@pytest.mark.parametrize("query", ["node=gone.py", "external=gone", "ecosystem=npm&package=gone"])
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


async def test_neighbours_beyond_the_limit_are_listed_but_not_drawn(sample_dashboard):
    files = tuple(f"pkg/m{at:04}.py" for at in range(700))
    graph = ModuleGraph(
        files=files,
        edges=tuple((at, 0) for at in range(1, 700)),
        externals=tuple(f"x{at:02}" for at in range(30)),
        external_edges=tuple((0, at) for at in range(30)),
    )
    await write(
        sample_dashboard.db,
        "UPDATE repo_graphs SET data = :data, commit_id = 'd'",
        data=pack_graph(graph),
    )
    page = await sample_dashboard.viewer.open(f"{HERE}?node={files[0]}")
    assert "and 679 more" in page.text
    assert "and 10 more" in page.text
    assert {"#importers", "#externals"} <= set(page.links)
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert {"importers", "imported", "externals"} <= ids
    assert "Imported by 699" in page.text
    assert "and 199 more; search for them by name above." in page.text
