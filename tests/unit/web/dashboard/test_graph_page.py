"""/repos/{owner}/{name}/graph: one place after the other, as a picture and as lists."""

import pytest

from agentjobs.inventory.graph.encoding import pack_graph
from agentjobs.inventory.model import ModuleGraph
from tests.support.users import write

HERE = "/repos/acme/shop/graph"


async def test_without_a_place_it_begins_with_what_is_imported_most(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    assert "3 files with 2 imports between them, and 1 external name." in page.text
    assert "src/shop.py imported by 1 file" in page.text
    assert {f"{HERE}?node=src%2Fshop.py", f"{HERE}?external=requests"} <= set(page.links)


@pytest.mark.parametrize(
    ("place", "left", "right"),
    [
        ("node=src/shop.py", ["node=src%2Fcart.py"], ["node=src%2Ftax.py", "external=requests"]),
        ("external=requests", ["node=src%2Fshop.py"], []),
        ("ecosystem=PyPI&package=requests", [], ["ecosystem=PyPI&package=urllib3"]),
        ("ecosystem=PyPI&package=urllib3", ["ecosystem=PyPI&package=requests"], []),
    ],
)
async def test_a_place_leads_to_all_its_neighbours(sample_dashboard, place, left, right):
    page = await sample_dashboard.viewer.open(f"{HERE}?{place}")
    assert page.status == 200
    around = [link.removeprefix(f"{HERE}?") for link in page.links if link.startswith(f"{HERE}?")]
    # In the wide picture, in the narrow one, and in the lists.
    assert around == [*left, *right] * 3
    assert not [given for tag, given in page.tags if tag == "script" and "src" not in given]


async def test_a_package_tells_its_versions_and_what_is_known_against_it(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}?ecosystem=PyPI&package=requests")
    known = "2.30.0 in requirements.txt · critical 9.8 GHSA-aaaa-bbbb-cccc · 2.31.0 fixes this"
    assert known in page.text
    assert "/repos/acme/shop/dependencies?manifest=requirements.txt" in page.links
    assert any("bad" in (given.get("class") or "") for _, given in page.tags)


async def test_modules_and_packages_are_found_by_a_part_of_their_name(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    found = await sample_dashboard.viewer.send(page, "/graph", q="REQ")
    assert "2 results for “REQ”" in found.text
    assert f"{HERE}?external=requests" in found.links
    assert f"{HERE}?ecosystem=PyPI&package=requests" in found.links
    assert "No results" in (await sample_dashboard.viewer.send(page, "/graph", q="xyz")).text


@pytest.mark.parametrize("place", ["node=gone.py", "external=gone", "ecosystem=npm&package=gone"])
async def test_a_place_that_is_gone_says_so_and_offers_others(sample_dashboard, place):
    page = await sample_dashboard.viewer.open(f"{HERE}?{place}")
    assert page.status == 404
    assert "indexed commit" in page.text
    assert HERE in page.links


async def test_before_the_first_index_there_is_no_graph(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM repo_graphs")
    for query in ("", "?node=src/shop.py", "?q=shop"):
        page = await sample_dashboard.viewer.open(HERE + query)
        assert page.status == 200
        assert "No graph yet" in page.text


async def test_of_many_neighbours_some_are_drawn_and_some_listed(sample_dashboard):
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
    ids = {given.get("id") for _, given in page.tags}
    assert {"importers", "imported", "externals"} <= ids
    assert "Imported by 699" in page.text
    assert "and 199 more; search for them by name above." in page.text
