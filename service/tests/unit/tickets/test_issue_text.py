"""What an issue hides from its readers is not told to an agent."""

import time

import pytest

from agentjobs.tickets.markdown_text import visible_text


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("plain\n\ntext -->", "plain\n\ntext -->"),
        ("a <!-- b --> c <!-- d -->e", "a  c e"),
        ("a\n<!-- one line -->\nb", "a\nb"),
        ("a\n<!-- b\n```\nc -->\nd", "a\nd"),
        ("a <!-- b\nc --> d", "a \n d"),
        ("a\n<!-- to the end\nof it", "a"),
        ("we write <!-- here\nand go on", "we write <!-- here\nand go on"),
        ("use `<!--` and <!-- hidden -->`-->`", "use `<!--` and `-->`"),
        ("```html\n<!-- code -->\n```\n<!-- not -->", "```html\n<!-- code -->\n```"),
        ("~~~~\n~~~\n<!-- code -->\n~~~~\na<!---->b", "~~~~\n~~~\n<!-- code -->\n~~~~\nab"),
    ],
)
def test_only_what_readers_see_is_left(written: str, seen: str) -> None:
    assert visible_text(written) == seen


@pytest.mark.parametrize("unit", ["<!--", "`<!--`", "<!-- -->", "<!--\n", "```\n", "-->"])
def test_no_text_takes_long(unit: str) -> None:
    began = time.process_time()
    visible_text(unit * (200_000 // len(unit)))
    assert time.process_time() - began < 1
