"""Converts terminal output to safe HTML or plain text.

Colours and weights become CSS classes; overwritten lines, such as progress bars, keep their last
state; all other escape sequences are removed.
"""

import re
from html import escape

from markupsafe import Markup

from agentjobs.web.dashboard.text.ansi_style import PLAIN, Style, apply_sgr
from agentjobs.web.dashboard.text.visible_text import visible

MAX_LINE_LENGTH = 10_000
# For downloads, which no browser lays out.
MAX_PLAIN_LINE_LENGTH = 1024 * 1024
CUT_MARK = "… (the rest of this long line is left out)"
_SEQUENCE = re.compile(
    r"(?P<back>\r)|\x1b(?:"
    r"\[(?P<style>[0-9;:]{0,200})m"
    # Some programs write this instead of a carriage return.
    r"|(?P<start>\[[01]?G)"
    # Also a sequence that the text ends in.
    r"|\[[0-?]{0,200}[ -/]{0,8}(?:[@-~]|\Z)"
    # Unlike in a terminal, the end of the line ends a title.
    r"|[\]PX^_].*?(?:\x07|\x1b\\|\x9c|\Z)"
    r"|[ -/]{0,8}[0-~]?)",
    re.DOTALL,
)
_Part = tuple[Style, str]


class _TerminalLines:
    """Styles and lines may continue across pieces."""

    max_line_length = MAX_LINE_LENGTH

    def __init__(self) -> None:
        self._style = PLAIN
        self._unfinished = ""

    def _feed(self, text: str) -> list[tuple[list[_Part], bool]]:
        """The completed lines: their parts, and whether they were cut."""
        *lines, unfinished = (self._unfinished + text).split("\n")
        done = [self._read(line) for line in lines]
        if len(unfinished) > self.max_line_length:
            overwritten, _, unfinished = unfinished.rpartition("\r")
            self._read(overwritten)
        self._unfinished = unfinished[: self.max_line_length + 1]
        return done

    def _rest(self) -> tuple[list[_Part], bool]:
        style = self._style
        rest = self._read(self._unfinished)
        self._style = style
        return rest

    def _read(self, line: str) -> tuple[list[_Part], bool]:
        """Continues with the style in which the line ends."""
        if len(line) > self.max_line_length:
            # What a progress bar has overwritten.
            line = line.rstrip("\r").rpartition("\r")[2]
        is_cut = len(line) > self.max_line_length
        text, *sequences = _SEQUENCE.split(line[: self.max_line_length])
        parts = [(self._style, text)] if text else []
        is_overwritten = False
        for back, numbers, start, text in zip(*(sequences[at::4] for at in range(4)), strict=True):
            if numbers is not None:
                self._style = apply_sgr(self._style, numbers)
            is_overwritten = is_overwritten or bool(back or start)
            if text and is_overwritten:
                parts, is_overwritten = [], False
            if text:
                parts.append((self._style, text))
        return parts, is_cut


class AnsiLines(_TerminalLines):
    """As HTML: a line is `<span class="line">…</span>`, the unfinished one
    `<span class="line rest">…</span>`: the caller shows it last and
    removes it before appending the next piece. The first line of a time has it as `data-at`."""

    def __init__(self) -> None:
        super().__init__()
        self._time = ""
        # When the unfinished line began; empty if it has no text yet.
        self._line_time = ""
        self._shown_time = ""

    def feed(self, text: str, time: str = "") -> Markup:
        """`time` is when the text was written, such as 15:04:05."""
        self._time = time
        html = []
        for parts, is_cut in self._feed(text):
            html.append(self._html("line", parts, is_cut=is_cut) + "\n")
            self._shown_time, self._line_time = self._line_time or time, ""
        if self._unfinished:
            self._line_time = self._line_time or time
        return Markup("".join(html))  # noqa: S704 - made of `_html`, which escapes

    def rest(self) -> Markup:
        parts, is_cut = self._rest()
        html = self._html("line rest", parts, is_cut=is_cut) if parts else ""
        return Markup(html)  # noqa: S704 - made of `_html`, which escapes

    def _html(self, css_class: str, parts: list[_Part], *, is_cut: bool) -> str:
        mark = f'<span class="a-cut">{CUT_MARK}</span>' if is_cut else ""
        time = self._line_time or self._time
        at = f' data-at="{escape(time)}"' if time != self._shown_time else ""
        return f'<span class="{css_class}"{at}>{"".join(map(_span, parts))}{mark}</span>'


class PlainLines(_TerminalLines):
    """Lines as plain text, for downloads."""

    max_line_length = MAX_PLAIN_LINE_LENGTH

    def feed(self, text: str) -> str:
        return "".join(_plain(*line) + "\n" for line in self._feed(text))

    def rest(self) -> str:
        return _plain(*self._rest())


def _plain(parts: list[_Part], is_cut: bool) -> str:
    text = visible("".join(text for _, text in parts))
    return text + CUT_MARK if is_cut else text


def _span(part: _Part) -> str:
    style, text = part
    safe = escape(visible(text))
    classes = "" if style is PLAIN else style.classes
    return f'<span class="{classes}">{safe}</span>' if classes else safe
