"""Untrusted Markdown: which HTML it produces, and that rendering takes linear time."""

import gc
import math
import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.web.dashboard.text import markdown
from agentjobs.web.dashboard.text.markdown import MAX_RENDERED, NOT_RENDERED, render, render_all

TAGS = frozenset(
    re.findall(
        r"\w+",
        "a blockquote br code div em h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th"
        " thead tr ul",
    )
)
ATTRIBUTES = {
    "href": re.compile(r"(?i)(https?://|mailto:|#).*", re.DOTALL),
    "rel": re.compile("nofollow noopener ugc"),
    "class": re.compile(r"prose|note|[a-z]|align-(left|right|center)"),
    "start": re.compile(r"\d+"),
    "tabindex": re.compile("0"),
}


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str] = []
        # Not as Markup, whose parts would escape what is added to them.
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        for name, value in attrs:
            assert ATTRIBUTES[name].fullmatch(value or "")
        if tag == "a":
            self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def test_the_usual_forms_are_rendered() -> None:
    html = render("# One\n\n###### Six\n\n*a* **b** ~~c~~ `d`\n\n> e\n\n1. f\n\n---\n")
    for part in ("<h3>One</h3>", "<h4>Six</h4>", "<em>a</em>", "<strong>b</strong>", "<s>c</s>"):
        assert part in html
    for part in ("<code>d</code>", "<blockquote>", "<ol>", "<hr"):
        assert part in html


def test_tables_have_classes_instead_of_styles() -> None:
    html = render("| a | b |\n|--:|:-:|\n| 1 | 2 |\n")
    assert '<td class="align-right">1</td>' in html
    assert '<td class="align-center">2</td>' in html


def test_a_task_list_stays_text() -> None:
    assert "<li>[ ] one</li>\n<li>[x] two</li>" in render("- [ ] one\n- [x] two\n")


def test_code_has_the_colours_of_its_language_or_none() -> None:
    assert '<span class="k">def</span>' in render("```python\ndef f(): ...\n```")
    assert '<pre tabindex="0"><code>def f &lt;x&gt;\n</code></pre>' in render(
        "```nonsense x\ndef f <x>\n```"
    )
    assert "<span" not in render("```python\n" + "x = 1\n" * 500 + "```")


def test_an_image_is_a_link_and_inside_a_link_its_alternative_text() -> None:
    assert '<a href="https://x.example/y.png" rel="nofollow noopener ugc">Image: cat</a>' in render(
        "![cat](https://x.example/y.png)"
    )
    badge = Page(render("[![ok](https://b.example/x.svg)](https://c.example)"))
    assert badge.links == ["https://c.example"]
    assert "Image: ok" in badge.text


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java&#115;cript:alert(1)",
        "&#106;avascript:alert(1)",
        "\tjavascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "/settings",
        "../settings",
        "//evil.example",
        "relative",
        "",
    ],
)
def test_only_some_addresses_become_links(address: str) -> None:
    for text in (f"[x]({address})", f"[x](<{address}>)", f"![x]({address})", f"<{address}>"):
        assert Page(render(text)).links == []
    assert Page(render(f"[x]\n\n[x]: {address}")).links == []


@pytest.mark.parametrize(
    "address", ["https://a.example/?q=1#x", "HTTP://a.example", "mailto:a@b.example", "#part"]
)
def test_other_addresses_do(address: str) -> None:
    assert Page(render(f"[x]({address})")).links == [address]


@pytest.mark.parametrize(
    "html",
    ["<script>alert(1)</script>", "<img src=x onerror=y>", "<!-- x -->", "<a href=x>", "<style>"],
)
def test_html_is_shown_as_text(html: str) -> None:
    assert html in Page(render(html)).text
    assert html in Page(render(f"a {html} b\n\n    {html}\n\n```\n{html}\n```\n")).text


@pytest.mark.parametrize("text", ["a\u202eb", "a&#x202e;b", "`a\u202eb`", "```\na\u202eb\n```"])
def test_deceptive_characters_are_shown_by_code_point(text: str) -> None:
    assert "a⟦U+202E⟧b" in Page(render(text)).text


@pytest.mark.parametrize(("line", "rendered"), [("# *a*\n", 2_000), (f"# {'*a* ' * 50}\n", 16_100)])
def test_a_long_text_is_rendered_up_to_a_line_and_shown_plain_from_there(
    line: str, rendered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown, "_PAGE_SECONDS", math.inf)
    repeated = 300_000 // len(line)
    page = Page(render(line * repeated + "<b>\u202e"))
    assert NOT_RENDERED in page.text
    shown, _, plain = page.text.partition(NOT_RENDERED)
    assert "*" not in shown
    assert shown.count("a") == rendered
    assert plain.startswith(f"\n{line}{line}")
    whole = Page(render(line * (MAX_RENDERED // len(line) + 5) + "<b>\u202e"))
    assert whole.text.endswith(f"{line}<b>⟦U+202E⟧\n")


@given(st.text(st.sampled_from("[]()<>!*_`~#-+|:\\&;\"' \n\tax1./=\u202e") | st.characters()))
def test_only_allowed_tags_and_attributes_are_produced(text: str) -> None:
    Page(render(text))


@pytest.mark.parametrize(
    "hostile",
    [
        *("[", "![", "*", "*a ", "_a_", "**a", "`", "``` `", "<", "&", "\\", "~~", "[a](", "[]("),
        *("> ", "- ", "1. ", "|", "a|b\n", "[a]: b\n", "*_", "# ", ">- ", "\t", "* a\n", "[a]"),
    ],
)
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    def seconds(size: int) -> float:
        text = hostile * (size // len(hostile))
        started = time.process_time()
        render(text)
        return time.process_time() - started

    # The collector's passes over everything that the test process holds are not the renderer's.
    gc.disable()
    try:
        # The first attempt at a quiet moment suffices; a busy machine needs another.
        assert any(
            seconds(MAX_RENDERED // 2) < 16 * max(seconds(MAX_RENDERED // 16), 0.01)
            for _ in range(3)
        )
    finally:
        gc.enable()


def test_the_texts_of_a_page_share_a_time_and_what_comes_after_it_is_shown_as_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(markdown, "_PAGE_SECONDS", 0)
    pages = [Page(html) for html in render_all(["*one*", "*two*<script>"])]
    assert "*one*" in pages[0].text
    assert "*two*<script>" in pages[1].text


@pytest.mark.parametrize("paragraph", ["[" * 4_000, "[" * 190, "![a](" * 190, "_a_ **b** " * 800])
def test_a_page_of_hostile_comments_takes_about_as_long_as_it_may(paragraph: str) -> None:
    comment = f"{paragraph}\n\n" * (60_000 // len(paragraph))
    began = time.thread_time()
    render_all([comment] * 20)
    assert time.thread_time() - began < 30 * markdown._PAGE_SECONDS


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("### First", [3]),
        ("# A\n### B\n## C\n# D", [3, 4, 4, 3]),
        ("###### A\n# B", [3, 3]),
        ("# A\n## B\n### C\n#### D\n##### E\n###### F", [3, 4, 5, 6, 6, 6]),
    ],
)
def test_headings_follow_those_of_the_page_without_a_gap(text: str, levels: list[int]) -> None:
    assert [int(level) for level in re.findall(r"<h(\d)>", render(text))] == levels


def test_code_can_be_scrolled_with_the_keyboard() -> None:
    for text in ("```\ncode\n```", "    code", "x" * 70_000):
        assert '<pre tabindex="0">' in render(text)
