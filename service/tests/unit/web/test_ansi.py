"""Terminal colours as HTML: only allowed tags and attributes are produced."""

import re
import time
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from agentjobs.web.dashboard.text.ansi import (
    CUT_MARK,
    MAX_LINE_LENGTH,
    MAX_PLAIN_LINE_LENGTH,
    AnsiLines,
    PlainLines,
)
from agentjobs.web.dashboard.text.visible_text import visible

OUR_CLASS = re.compile(r"line|line rest|a-[a-z-]+( a-[a-z-]+)*")


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.depth = 0
        # Not as Markup, whose parts would escape what is added to them.
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "span"
        ((name, value),) = attrs
        assert name == "class"
        assert OUR_CLASS.fullmatch(value or "")
        self.depth += 1

    def handle_endtag(self, _tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def html_of(text: str) -> str:
    lines = AnsiLines()
    return lines.feed(text) + lines.rest()


def text_of(text: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html_of(text)))


def line(inner: str) -> str:
    return f'<span class="line">{inner}</span>\n'


@pytest.mark.parametrize(
    ("numbers", "classes"),
    [
        ("31", "a-red"),
        ("1;32", "a-bold a-green"),
        ("93", "a-bright-yellow"),
        ("44", "a-on-blue"),
        ("104", "a-on-blue"),
        ("3;4;9", "a-italic a-strike a-underline"),
        ("2", "a-dim"),
        ("2;31", "a-red"),
        ("7", "a-inverse"),
        ("7;31", "a-on-red"),
        ("38;5;9", "a-bright-red"),
        ("38;5;22", "a-green"),
        ("38;5;244", "a-white"),
        ("38;2;250;120;120", "a-bright-red"),
        ("38:2::0:0:200", "a-blue"),
        ("38:2:0:0:200", "a-blue"),
        ("48;2;0;160;160;1", "a-bold a-on-cyan"),
        ("4:3", "a-underline"),
        ("58;5;1;31", "a-red"),
    ],
)
def test_numbers_become_classes(numbers: str, classes: str) -> None:
    assert html_of(f"\x1b[{numbers}mx\n") == line(f'<span class="{classes}">x</span>')


@pytest.mark.parametrize("numbers", ["", "0", "31;0", "31;39", "1;22", "4;4:0", "999", "1" * 150])
def test_an_ended_or_unknown_style_leaves_plain_text(numbers: str) -> None:
    assert html_of(f"\x1b[{numbers}mx\n") == line("x")


def test_a_style_continues_over_lines_and_chunks() -> None:
    lines = AnsiLines()
    assert lines.feed("\x1b[3") == ""
    assert lines.feed("1ma\nb") == line('<span class="a-red">a</span>')
    assert lines.rest() == '<span class="line rest"><span class="a-red">b</span></span>'
    assert lines.feed("c\x1b[0md\r") == ""
    assert lines.feed("\n") == line('<span class="a-red">bc</span>d')
    assert lines.rest() == ""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("10%\r20%\r100%\n", "100%\n"),
        ("10%\r20%\r\n", "20%\n"),
        ("a\x1b[2K\x1b[1Gb\n", "b\n"),
        ("a\r\x1b[Kb\n", "b\n"),
        ("a\r\r\n", "a\n"),
        ("\r".join(f"\x1b[32m{percent}%\x1b[0m" for percent in range(1, 2_001)) + "\n", "2000%\n"),
        ("\n\n", "\n\n"),
    ],
)
def test_a_progress_bar_is_shown_in_its_last_state(written: str, shown: str) -> None:
    assert text_of(written) == shown


@pytest.mark.parametrize(
    "escape",
    [
        "\x1b]0;a title\x07",
        "\x1b]8;;https://evil.example\x1b\\",
        "\x1bPq#0;2;0;0;0\x1b\\",
        "\x1b[2J\x1b[10;10H",
        "\x1b[?25l",
        "\x1b(B",
        "\x1b=",
        "\x1b",
    ],
)
def test_every_other_escape_is_removed(escape: str) -> None:
    assert text_of(f"a{escape}\x1b[1mb\n") == "ab\n"


def test_an_unterminated_title_hides_no_other_line() -> None:
    assert text_of("a\x1b]0;title\nb\n") == "a\nb\n"


def test_markup_is_escaped_and_deceptive_characters_are_shown_by_code_point() -> None:
    assert html_of("<b>&\"'\u202e\x00\n") == line("&lt;b&gt;&amp;&quot;&#x27;⟦U+202E⟧\ufffd")


def test_a_long_line_is_truncated_with_a_notice() -> None:
    lines = AnsiLines()
    for _ in range(20):
        assert lines.feed("x" * 1_000) == ""
    shown = unescape(re.sub("<[^>]*>", "", lines.feed("\nnext\n")))
    assert shown == "x" * MAX_LINE_LENGTH + CUT_MARK + "\nnext\n"


HOSTILE = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(
            ["\x1b", "\x1b[", "\x1b]", "\x1b[31m", "\x1b[1;4", "m", "\r", "\n", "\x07"]
        ),
        st.sampled_from(["<script>", '"', "'>", "&lt;", "<!--", "\u202e", "\x9b31m"]),
    ),
    max_size=30,
)


@given(HOSTILE)
def test_no_other_tag_or_attribute_ever_appears(pieces: list[str]) -> None:
    lines = AnsiLines()
    html = Markup().join([*map(lines.feed, pieces), lines.rest()])
    assert Page(html).depth == 0
    assert "\x1b" not in html


@given(HOSTILE)
def test_pieces_and_the_whole_show_the_same(pieces: list[str]) -> None:
    lines = AnsiLines()
    in_pieces = Markup().join([*map(lines.feed, pieces), lines.rest()])
    assert Page(in_pieces).text == Page(html_of("".join(pieces))).text


@given(st.text(st.characters(exclude_characters="\x1b\r", exclude_categories=("Cs",))))
def test_text_without_escapes_is_shown_as_it_is_visible(text: str) -> None:
    assert Page(html_of(text)).text == visible(text)


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[", "\x1b]", "\x1b[31mx", "\x1b", "x\r", "x\x1b[m", "\n", "\x1b[" + "1;" * 90 + "m", "x"],
)
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    def seconds(size: int) -> float:
        text = hostile * (size // len(hostile))
        started = time.process_time()
        html_of(text)
        return time.process_time() - started

    assert seconds(400_000) < 30 * max(seconds(50_000), 0.004)


@pytest.mark.parametrize("sequence", ["\x1b[K", "\x1b[m"])
def test_a_download_takes_linear_time_for_a_long_line_of_escape_sequences(sequence: str) -> None:
    def seconds(size: int) -> float:
        text = f"x{sequence}" * size + "\n"
        started = time.process_time()
        PlainLines().feed(text)
        return time.process_time() - started

    assert seconds(MAX_PLAIN_LINE_LENGTH // 4) < 12 * max(seconds(MAX_PLAIN_LINE_LENGTH // 16), 0.1)
