"""The drawing of a map: inside its frame, escaped, with a link for each box."""

import xml.etree.ElementTree as ET

import pytest

from agentjobs.web.dashboard.plots.labels import shorten
from agentjobs.web.dashboard.plots.layered import Box, draw_layers
from agentjobs.web.dashboard.repos.language_bar import language_bar
from agentjobs_dependencies.languages import LanguageLines
from service.tests.unit.web.dashboard.browser import PAYLOAD

SVG = "{http://www.w3.org/2000/svg}"


def drawings(names, links, title="A map"):
    """The wide and the narrow drawing, parsed as strict XML."""
    boxes = [Box(name, f"/graph?focus={at}", "file", note=name) for at, name in enumerate(names)]
    text = str(draw_layers(title, boxes, links).svg)
    text = text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return list(ET.fromstring(f"<both>{text}</both>"))


def test_every_box_is_a_link_with_its_imports():
    for drawing in drawings(["a.py", "b.py"], {(0, 1): 3}):
        links = {link.get("href"): link for link in drawing.iter(f"{SVG}a")}
        assert list(links) == ["/graph?focus=0", "/graph?focus=1"]
        assert links["/graph?focus=0"].get("data-to") == "1"
        assert "a.py → b.py (3)" in [title.text for title in drawing.iter(f"{SVG}title")]
        assert drawing.get("aria-label") == "A map"


@pytest.mark.parametrize(("above", "below"), [(0, 0), (0, 20), (20, 0), (21, 20)])
def test_every_element_is_inside_the_frame(above, below):
    names = [f"{at}{'x' * 50}" for at in range(above + below + 1)]
    links = {(at, above): 1 for at in range(above)}
    links |= {(above, above + 1 + at): 1 for at in range(below)}
    for drawing in drawings(names, links):
        begin_x, begin_y, width, height = map(float, drawing.get("viewBox").split())
        boxes = list(drawing.iter(f"{SVG}rect"))
        assert len(boxes) == above + below + 1
        for box in boxes:
            x, y, wide, high = (float(box.get(name)) for name in ("x", "y", "width", "height"))
            assert begin_x <= x < x + wide <= begin_x + width
            assert begin_y <= y < y + high <= begin_y + height


def test_untrusted_text_is_escaped():
    hostile = PAYLOAD + "\u202e\x00"
    for drawing in drawings([hostile, f"{hostile}x"], {(0, 1): 1}, hostile):
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
