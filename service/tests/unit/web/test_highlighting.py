"""Syntax highlighting never changes the text."""

import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.web.dashboard.text.highlighting import (
    highlight,
    language_named,
    language_of_file,
)

TAG = re.compile(r'<span class="[a-z]">|</span>')


def coloured(path: str, *lines: str) -> list[str]:
    language = language_of_file(path)
    assert language is not None
    html = highlight(lines, language)
    assert html is not None
    return html


def test_python_has_keywords_names_strings_and_comments() -> None:
    (line,) = coloured("a/b.py", 'def f(x: int) -> str: return "<a>" + None  # why')
    assert line == (
        '<span class="k">def</span> <span class="f">f</span>(x: <span class="b">int</span>) -&gt; '
        '<span class="b">str</span>: <span class="k">return</span> '
        '<span class="s">"&lt;a&gt;"</span> + <span class="m">None</span>  '
        '<span class="c"># why</span>'
    )


def test_a_string_over_several_lines_is_closed_and_opened_on_each() -> None:
    assert coloured("a.py", 'x = """one', "two", '"""', "y") == [
        'x = <span class="s">"""one</span>',
        '<span class="s">two</span>',
        '<span class="s">"""</span>',
        "y",
    ]


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("a.ts", "const a = `x`; // b", '<span class="k">const</span>'),
        ("a.go", "func main() {}", '<span class="k">func</span>'),
        ("a.rs", "fn f<'a>(x: &'a str) {}", '<span class="f">f</span>'),
        ("a.java", "@Override public int x;", '<span class="b">@Override</span>'),
        ("a.c", '#include "x.h"', '<span class="c">#include</span>'),
        ("a.yaml", "name: 1", '<span class="k">name</span>'),
        ("a.sh", "echo $HOME", '<span class="v">$HOME</span>'),
        ("Dockerfile", "FROM scratch", '<span class="k">FROM</span>'),
        ("a.json", '{"a": 1}', '<span class="m">1</span>'),
    ],
)
def test_the_file_name_determines_the_language(path: str, line: str, expected: str) -> None:
    assert expected in coloured(path, line)[0]


@pytest.mark.parametrize("path", ["notes.txt", "x", "", "a.unheard-of", "x" * 5_000, "a.py\0"])
def test_an_unknown_name_has_no_language(path: str) -> None:
    assert language_of_file(path) is None


def test_a_fence_names_a_language_or_does_not() -> None:
    assert language_named("python") is not None
    assert language_named("yaml") is not None
    for name in ("", "nonsense", "text", "x" * 100_000):
        assert language_named(name) is None


@pytest.mark.parametrize("path", ["a.py", "a.ts", "a.yaml"])
def test_text_that_is_too_long_is_not_highlighted(path: str) -> None:
    language = language_of_file(path)
    assert language is not None
    assert highlight(["x" * 2_001], language) is None
    assert highlight(["x" * 1_000] * 300, language) is None
    assert highlight(["a = 1"], language, deadline=0.0) is None


@pytest.mark.parametrize("path", ["a.py", "a.tsx", "a.go", "a.rs", "a.c", "a.html", "a.md"])
@given(lines=st.lists(st.text(st.characters(exclude_characters="\n")), min_size=1, max_size=9))
def test_no_text_is_lost_or_becomes_markup(path: str, lines: list[str]) -> None:
    language = language_of_file(path)
    assert language is not None
    html = highlight(lines, language)
    if html is not None:
        assert [unescape(TAG.sub("", line)) for line in html] == [
            unescape(line.replace("&", "&amp;")) for line in lines
        ]
        assert all("<" not in TAG.sub("", line) for line in html)
        assert all(line.count("<span") == line.count("</span>") for line in html)


@pytest.mark.parametrize("suffix", [".py", ".ts", ".go", ".c"])
@pytest.mark.parametrize(
    "hostile", ["'", '"', "\\", "/*", '"""', "`", "'\\", "@a.", "0x", "#", " "]
)
def test_hostile_code_is_given_up_at_the_deadline(suffix: str, hostile: str) -> None:
    language = language_of_file(f"x{suffix}")
    assert language is not None
    started = time.thread_time()
    highlight([hostile * (170 // len(hostile))] * 1_500, language, deadline=started + 0.1)
    assert time.thread_time() < started + 0.3
