"""The drawing of a package: bounded, escaped, with a link for each neighbour."""

import xml.etree.ElementTree as ET

import pytest

from agentjobs.inventory.model import LanguageLines
from agentjobs.inventory.package_neighbors import PackageNeighbors
from agentjobs.web.dashboard.plots.labels import shorten
from agentjobs.web.dashboard.repos.graph_views import package_view
from agentjobs.web.dashboard.repos.language_bar import language_bar
from tests.support.dependencies import package, views
from tests.unit.web.dashboard.browser import PAYLOAD

SVG = "{http://www.w3.org/2000/svg}"


HERE = "/repos/acme/shop/graph"


def drawings(name, manifests=(), dependents=(), dependencies=(), vulnerable=()):
    """The wide and the narrow drawing of a package, parsed as strict XML."""
    neighbors = PackageNeighbors(
        package_rows=tuple(views([package("npm", name, "1.0")])),
        manifests=tuple(manifests),
        dependents=tuple(dependents),
        dependencies=tuple(views([package("npm", each, "2.0", name) for each in dependencies])),
    )
    view = package_view(HERE, "npm", name, neighbors, frozenset(vulnerable))
    text = str(view.picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return list(ET.fromstring(f"<both>{text}</both>"))


def test_neighbours_are_links_and_the_centre_is_not():
    dependents = [f"a{at:02}" for at in range(23)]
    for drawing in drawings("me", ["package.json"], dependents, ["yaml"], ["yaml"]):
        links = {link.get("href"): link for link in drawing.iter(f"{SVG}a")}
        assert list(links) == [
            "/repos/acme/shop/dependencies?manifest=package.json",
            *(f"{HERE}?ecosystem=npm&package={name}" for name in dependents[:19]),
            *("#dependents", f"{HERE}?ecosystem=npm&package=yaml"),
        ]
        assert links["#dependents"].find(f"{SVG}text").text == "and 4 more"
        assert links[f"{HERE}?ecosystem=npm&package=yaml"].get("class") == "node bad"
        assert drawing.get("aria-label") == "Packages that depend on me, and its dependencies"
        names = [title.text for title in drawing.findall(f".//{SVG}rect/../{SVG}title")]
        assert names[-2:] == ["me, 1.0", "yaml, 2.0, vulnerable"]


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 20), (20, 0), (21, 20)])
def test_every_element_is_inside_the_frame(left, right):
    above, below = (
        [f"{side}{at}{'x' * 50}" for at in range(number)]
        for side, number in (("a", left), ("b", right))
    )
    for drawing in drawings("me", (), above, below):
        begin_x, begin_y, width, height = map(float, drawing.get("viewBox").split())
        boxes = list(drawing.iter(f"{SVG}rect"))
        assert len(boxes) == left + right + 1
        for box in boxes:
            x, y, wide, high = (float(box.get(name)) for name in ("x", "y", "width", "height"))
            assert begin_x <= x < x + wide <= begin_x + width
            assert begin_y <= y < y + high <= begin_y + height


def test_untrusted_text_is_escaped():
    hostile = PAYLOAD + "\u202e\x00"
    for drawing in drawings(hostile, [hostile], [hostile], [hostile + "x"]):
        assert {element.tag.removeprefix(SVG) for element in drawing.iter()} == {
            *("svg", "g", "a", "path", "rect", "text", "title")
        }
        attributes = {name for element in drawing.iter() for name in element.attrib}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        titles = drawing.findall(f".//{SVG}rect/../{SVG}title")
        assert all(title.text.startswith(f"{PAYLOAD}⟦U+202E⟧") for title in titles)


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("src/app.py", 10, "src/app.py"),
        ("src/deep/down/app.py", 10, "src…app.py"),
        ("名前名前名前", 7, "名…名前"),
        ("x" * 10_000, 5, "x…xxx"),
    ],
)
def test_a_long_name_is_shortened_in_the_middle(text, most, expected):
    assert shorten(text, most) == expected


def test_languages_share_one_bar_and_small_ones_are_combined():
    languages = [LanguageLines(f"L{at}", at, 10 * at) for at in range(1, 10)]
    bar = language_bar(languages)
    assert [row.language for row in bar.rows] == ["L9", "L8", "L7", "L6", "L5", "L4", "3 others"]
    assert sum(row.share for row in bar.rows) == pytest.approx(1)
    assert (bar.rows[-1].lines, bar.rows[-1].files) == (60, 6)
    assert str(bar.svg).count("<rect") == 7
    assert language_bar([]) is None
    assert language_bar([LanguageLines("None", 1, 0)]) is None
