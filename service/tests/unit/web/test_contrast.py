"""Contrast of the stylesheets' colours on every background, in the light and the dark scheme."""

import re
from itertools import product
from pathlib import Path

import pytest

import agentjobs.web.dashboard

STATIC = Path(agentjobs.web.dashboard.__file__).with_name("static")
DARK = "@media (prefers-color-scheme: dark)"
COLOUR = re.compile(r"--([\w-]+):\s*(#[0-9a-f]{6});")
CODE_GROUNDS = ("surface", "added", "removed", "raised")
ANSI = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def colours(scheme: str) -> dict[str, str]:
    """Every colour property in this scheme."""
    properties: dict[str, str] = {}
    for name in ("dashboard.css", "code.css", "plots.css"):
        text = (STATIC / name).read_text()
        light, _, rest = text.partition(DARK)
        dark = rest[: rest.index("}\n}") if "}\n}" in rest else 0]
        properties |= dict(COLOUR.findall(light))
        if scheme == "dark":
            changed = dict(COLOUR.findall(dark))
            required = {
                name for name in dict(COLOUR.findall(light)) if name.startswith(("sy", "an", "se"))
            }
            assert required <= set(changed)
            properties |= changed
    return properties


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_computed_as_in_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_is_readable_on_every_line_of_a_diff(scheme: str) -> None:
    palette = colours(scheme)
    inks = [name for name in palette if name.startswith("syntax-")] + ["text", "quiet"]
    assert len(inks) == 10
    unreadable = [
        (ink, ground)
        for ink, ground in product(inks, CODE_GROUNDS)
        if contrast(palette[ink], palette[ground]) < 4.5
    ]
    assert unreadable == []
    assert contrast(palette["quiet"], palette["hunk"]) >= 4.5
    for kind in ("added", "removed"):
        assert contrast(palette[f"{kind}-edge"], palette[kind]) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_log_colour_is_readable_on_every_background(scheme: str) -> None:
    palette = colours(scheme)
    inks = [f"ansi-{bright}{name}" for name in ANSI for bright in ("", "bright-")]
    grounds = [*(f"ansi-on-{name}" for name in ANSI), "surface"]
    unreadable = [
        (ink, ground)
        for ink, ground in product([*inks, "text", "quiet"], grounds)
        if contrast(palette[ink], palette[ground]) < 4.5
    ]
    assert unreadable == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_of_a_plot_stand_out(scheme: str) -> None:
    palette = colours(scheme)
    marks = [
        *(f"series-{number}" for number in range(1, 7)),
        "good",
        "bad",
        "warn",
        "info",
        "quiet",
    ]
    for mark, ground in product(marks, ("surface", "ground")):
        assert contrast(palette[mark], palette[ground]) >= 3, (mark, ground)
    assert contrast(palette["quiet"], palette["ground"]) >= 4.5


def test_every_generated_class_has_a_rule() -> None:
    text = (STATIC / "code.css").read_text() + (STATIC / "plots.css").read_text()
    for name in ANSI:
        for css_class in (f"a-{name}", f"a-bright-{name}", f"a-on-{name}"):
            assert f".{css_class} {{" in text
    code = text[text.index(".code, .prose {") : text.index("/* Diffs */")]
    for letter in "bcfkmstv":
        assert f"  .{letter} {{" in code
    assert "url(" not in text
