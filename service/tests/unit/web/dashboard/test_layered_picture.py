"""The drawing of a map: inside its frame, escaped, with links and heads of arrows."""

import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs.web.dashboard.plots.layered import Box, draw_layers
from service.tests.unit.web.dashboard.browser import PAYLOAD

SVG = "{http://www.w3.org/2000/svg}"


def drawings(boxes, links):
    """The wide and the narrow drawing, parsed as strict XML."""
    text = str(draw_layers("All", boxes, links).svg)
    text = text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return list(ET.fromstring(f"<both>{text}</both>"))


@st.composite
def maps(draw):
    labels = draw(st.lists(st.text("abc/\u540d", max_size=60), min_size=1, max_size=20))
    nodes = st.integers(0, len(labels) - 1)
    links = draw(st.dictionaries(st.tuples(nodes, nodes), st.integers(1, 9), max_size=40))
    boxes = [Box(label, f"/{at}", "folder", str(at)) for at, label in enumerate(labels)]
    return boxes, links


@settings(max_examples=40, deadline=None)
@given(maps())
def test_every_box_is_a_link_inside_the_frame_and_none_overlap(content):
    boxes, links = content
    for drawing in drawings(boxes, links):
        left, top, width, height = map(float, drawing.get("viewBox").split())
        assert [link.get("href") for link in drawing.iter(f"{SVG}a")] == [box.href for box in boxes]
        places = [
            [float(box.get(name)) for name in ("x", "y", "width", "height")]
            for box in drawing.iter(f"{SVG}rect")
        ]
        for x, y, wide, high in places:
            assert left <= x < x + wide <= left + width + 0.2
            assert top <= y < y + high <= top + height + 0.2
        for at, (x, y, wide, _) in enumerate(places):
            others = [other for other in places[:at] if other[1] == y]
            assert all(x + wide < other[0] or other[0] + other[2] < x for other in others)


def test_a_line_has_a_head_at_each_end_that_is_imported():
    boxes = [Box(name, f"/{name}", "file") for name in "abcd"]
    links = {(0, 1): 2, (1, 0): 1, (1, 2): 3, (2, 3): 3, (3, 1): 1}
    for drawing in drawings(boxes, links):
        groups = drawing.findall(f"{SVG}g")
        lines = {
            each.get("data-edge"): (
                each.get("class"),
                each.find(f"{SVG}path[@class='arrow']").get("d").count("z"),
            )
            for each in groups
        }
        assert lines == {
            "0 1": ("link back", 2),
            "1 2": ("link", 1),
            "2 3": ("link", 1),
            "3 1": ("link back", 1),
        }
        titles = [each.find(f"{SVG}title").text for each in groups]
        assert titles[:2] == ["a → b (2), b → a (1)", "b → c (3)"]
        first = drawing.find(f"{SVG}a")
        assert first.get("data-to") == "1"
        assert first.find(f"{SVG}title").text == "a, part of an import cycle"
    assert draw_layers("All", boxes, links).in_cycle == {0, 1, 2, 3}


def test_untrusted_text_is_escaped():
    hostile = Box(PAYLOAD + "\u202e\x00\n", f"/?focus={PAYLOAD}", "file", note="5 files")
    for drawing in drawings([hostile, Box("here", "", "external")], {(0, 1): 1}):
        tags = {element.tag.removeprefix(SVG) for element in drawing.iter()}
        assert tags == {"svg", "g", "a", "path", "rect", "text", "title"}
        attributes = {name for element in drawing.iter() for name in element.attrib}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert drawing.find(f"{SVG}a/{SVG}title").text.startswith(f"{PAYLOAD}⟦U+202E⟧")
