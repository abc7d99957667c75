"""Rich text of Jira Cloud becomes plain text, whatever somebody puts into it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from agentjobs.tickets.bounds import MAX_TEXT_BYTES, TRUNCATION_NOTICE, build_ticket, truncate_text
from agentjobs.tickets.jira.document_text import adf_text


def doc(*content: Any) -> dict[str, Any]:
    return {"type": "doc", "version": 1, "content": list(content)}


def node(kind: str, *content: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "attrs": attributes, "content": list(content)}


def text(words: str, *marks: str, href: str | None = None) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [{"type": mark} for mark in marks]
    if href is not None:
        kinds.append({"type": "link", "attrs": {"href": href}})
    return {"type": "text", "text": words, "marks": kinds}


def paragraph(*content: Any) -> dict[str, Any]:
    return node("paragraph", *content)


def item(*content: Any) -> dict[str, Any]:
    return node("listItem", *content)


def test_a_ticket_reads_as_it_was_written() -> None:
    document = doc(
        node("heading", text("The cart"), level=2),
        paragraph(
            text("It is "),
            text("always", "strong"),
            text(" empty, says "),
            node("mention", text="@Ada"),
            node("hardBreak"),
            text("since "),
            node("date", timestamp="1767225600000"),
            text("; see "),
            text("the log", href="https://example.com/log"),
            text("."),
        ),
        node(
            "bulletList",
            item(
                paragraph(text("first")),
                node("orderedList", item(paragraph(text("within"))), order=3),
            ),
            item(paragraph(text("second"))),
        ),
        node(
            "taskList",
            node("taskItem", text("done"), state="DONE"),
            node("taskItem", text("open"), state="TODO"),
        ),
        node("panel", paragraph(text("Mind the gap")), panelType="warning"),
        node("codeBlock", text("a = ```b```"), language="python"),
        node(
            "table",
            node("tableRow", node("tableHeader", paragraph(text("a"))), node("tableHeader")),
            node("tableRow", node("tableCell", paragraph(text("1"))), node("tableCell")),
        ),
        node("rule"),
        node("expand", paragraph(text("inside")), title="More"),
        node("mediaSingle", node("media", alt="cart.png")),
        node("blockCard", url="https://example.com/card"),
        node("something-new", paragraph(text("still read"))),
    )
    assert adf_text(document).split("\n") == [
        "## The cart",
        "",
        "It is **always** empty, says @Ada",
        "since 2026-01-01; see [the log](https://example.com/log).",
        "",
        "- first",
        "  3. within",
        "- second",
        "",
        "- [x] done",
        "- [ ] open",
        "",
        "> Mind the gap",
        "",
        "````python",
        "a = ```b```",
        "````",
        "",
        "| a |  |",
        "| --- | --- |",
        "| 1 |  |",
        "",
        "---",
        "",
        "More",
        "",
        "inside",
        "",
        "[attachment: cart.png]",
        "",
        "https://example.com/card",
        "",
        "still read",
    ]


@pytest.mark.parametrize(
    "document",
    [
        None,
        7,
        [],
        {},
        {"content": "text"},
        doc(None, 1, "x", {"type": 3}, {"type": "text", "text": 5}, {"type": ["text"]}),
        doc(node("heading", level="two"), node("orderedList", order=10**40), node("date")),
        doc(paragraph(node("date", timestamp="9" * 400), {"type": "text", "marks": [1, {}]})),
        doc({"type": "codeBlock", "attrs": [], "content": {}}),
    ],
)
def test_an_invalid_document_has_no_text(document: Any) -> None:
    assert adf_text(document).strip("#`\n ") == ""


def test_text_that_is_text_already_stays() -> None:
    assert adf_text("h1. Wiki") == "h1. Wiki"


@pytest.mark.parametrize("kind", ["bulletList", "panel", "table", "expand", "listItem", "taskList"])
def test_a_document_that_is_nested_too_deeply_is_truncated(kind: str) -> None:
    deep = paragraph(text("bottom"))
    for _ in range(5_000):
        deep = node(kind, deep)
    written = adf_text(doc(paragraph(text("top")), deep))
    assert written.startswith("top")
    assert "bottom" not in written
    assert len(written) < 1_000


@pytest.mark.parametrize(
    "content",
    [
        lambda: [text("x" * 100) for _ in range(50_000)],
        lambda: [node("hardBreak") for _ in range(300_000)],
        lambda: (
            [text("x", "strong", "em", "code", "strike", href="https://" + "y" * 5_000)] * 20_000
        ),
        lambda: [{"type": "text", "text": "\n" * 8_000_000}],
    ],
    ids=["many", "breaks", "links", "lines"],
)
def test_a_document_of_megabytes_costs_little(content: Callable[[], list[Any]]) -> None:
    deep = paragraph(*content())
    for _ in range(18):
        deep = node("blockquote", deep)
    began = time.process_time()
    written = truncate_text(adf_text(doc(deep)))
    assert time.process_time() - began < 2
    assert len(written.encode()) <= MAX_TEXT_BYTES


def test_a_long_text_is_cut_with_a_notice_and_never_inside_a_letter() -> None:
    assert truncate_text("ä" * (MAX_TEXT_BYTES // 2)) == "ä" * (MAX_TEXT_BYTES // 2)
    cut = truncate_text("ä" * MAX_TEXT_BYTES)
    assert cut.endswith("ä" + TRUNCATION_NOTICE)
    assert MAX_TEXT_BYTES - 2 < len(cut.encode()) <= MAX_TEXT_BYTES


def test_untrusted_text_is_bounded_and_cleaned() -> None:
    ticket = build_ticket(
        "A-1",
        "A\nline\u202e\x1b[31m \ud800" + "x" * 999,
        "one\r\ntwo\x00\x07\tthree\u2028four",
        ["a", "a", "\n", "l" * 300, *(str(number) for number in range(99))],
        "javascript:alert(1)",
    )
    assert ticket.title.startswith("A line[31m ?xxx")
    assert len(ticket.title) == 255
    assert ticket.text == "one\ntwo\tthree four"
    assert ticket.labels[:2] == ("a", "l" * 99 + "…")
    assert len(ticket.labels) == 50
    assert ticket.url == ""
    assert build_ticket("A-1", " \n", "", [], "").title == "A-1"
