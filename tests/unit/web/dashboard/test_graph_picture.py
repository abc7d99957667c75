"""The drawing of a graph node: bounded, escaped, with a link for each neighbour."""

import xml.etree.ElementTree as ET

import pytest

from agentjobs.inventory.model import LanguageLines
from agentjobs.web.dashboard.plots.graph import Node, Picture, draw
from agentjobs.web.dashboard.plots.labels import shorten
from agentjobs.web.dashboard.repos.language_bar import language_bar
from tests.unit.web.dashboard.browser import PAYLOAD

SVG = "{http://www.w3.org/2000/svg}"


def drawings(picture):
    """The wide and the narrow drawing, parsed as strict XML."""
    text = str(draw(picture)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return list(ET.fromstring(f"<both>{text}</both>"))


def test_neighbours_are_links_and_the_centre_is_not():
    left = tuple(Node(f"a{at}", f"/?node=a{at}") for at in range(3))
    right = (Node("yaml", "/?external=yaml", "external"), Node("no-way", "", "bad"))
    picture = Picture("All", Node("me", "/?node=me"), left, right, 4, 0, "#importers")
    for drawing in drawings(picture):
        links = {link.get("href"): link for link in drawing.iter(f"{SVG}a")}
        assert list(links) == [
            *(f"/?node=a{at}" for at in range(3)),
            *("#importers", "/?external=yaml"),
        ]
        assert links["#importers"].find(f"{SVG}text").text == "and 4 more"
        assert links["/?external=yaml"].get("class") == "node external"
        assert drawing.get("aria-label") == "All"
        names = [title.text for title in drawing.iter(f"{SVG}title")]
        assert sorted(names) == ["a0", "a1", "a2", "and 4 more", "me", "no-way", "yaml"]


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 20), (20, 0), (21, 20)])
def test_every_element_is_inside_the_frame(left, right):
    def some(count):
        return tuple(Node("x" * 50, f"/{at}") for at in range(count))

    picture = Picture("All", Node("me"), some(left), some(right))
    for drawing in drawings(picture):
        *_, width, height = map(float, drawing.get("viewBox").split())
        boxes = list(drawing.iter(f"{SVG}rect"))
        assert len(boxes) == left + right + 1
        for box in boxes:
            x, y, wide, high = (float(box.get(name)) for name in ("x", "y", "width", "height"))
            assert 0 <= x < x + wide <= width
            assert 0 <= y < y + high <= height


def test_untrusted_text_is_escaped():
    hostile = Node(PAYLOAD + "\u202e\x00", f"/?node={PAYLOAD}", note=PAYLOAD + "\x1b")
    for drawing in drawings(Picture(PAYLOAD, hostile, (hostile,), (hostile,))):
        assert {element.tag.removeprefix(SVG) for element in drawing.iter()} == {
            *("svg", "g", "a", "path", "rect", "text", "title")
        }
        attributes = {name for element in drawing.iter() for name in element.attrib}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert drawing.find(f".//{SVG}title").text.startswith(f"{PAYLOAD}⟦U+202E⟧")


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
