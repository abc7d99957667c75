"""Turns what a program wrote for a terminal into lines of safe HTML.

Colours and weights become classes, progress bars their last state; every other escape is removed.
Knows nothing of jobs or of where the text comes from.
"""

import re
from html import escape

from markupsafe import Markup

from agentjobs.web.dashboard.text.ansi_style import PLAIN, Style, apply_sgr
from agentjobs.web.dashboard.text.visible_text import visible

LONGEST_LINE = 10_000
# In a file, which nobody has to lay out.
LONGEST_PLAIN_LINE = 1024 * 1024
CUT_MARK = "… (the rest of this long line is left out)"

# A longer beginning of an escape is not waited for: it is text.
_LONGEST_ESCAPE = 256
_TOKEN = re.compile(
    r"\x1b\[(?P<numbers>[0-?]{0,200})[ -/]{0,8}(?P<final>[@-~])"
    r"|(?P<string>\x1b[\]PX^_])"
    r"|(?P<end>\r?\n)"
    r"|(?P<back>\r)"
    r"|\x1b[ -/]{0,8}[0-~]?"
)
# All that most lines have of escapes.
_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,200})m")
# Printable, and nothing to be escaped.
_is_plain = re.compile(r"[ !#-%(-;=?-~]*").fullmatch
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,200})?[ -/]{0,8}\Z|\r\Z")
# A terminal would wait for ever; a line's end stops a text that nobody ended.
_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|(?=\n)")


class _TerminalLines:
    """Fed piece by piece; a style or a line may go on from one piece to the next.

    `_feed` returns the lines that ended, each with a newline; `_rest` the unfinished one.
    """

    longest_line = LONGEST_LINE

    def __init__(self) -> None:
        self._style = PLAIN
        self._held = ""
        self._in_string = False
        self._begin_line()

    def _feed(self, text: str) -> str:
        lines: list[str] = []
        text = self._hold_back(self._held + text)
        at = self._after_string(text, 0)
        while at < len(text):
            end = text.find("\n", at)
            if end >= 0 and self._write_whole(text[at:end]):
                self._end_line(lines)
                at = end + 1
            else:
                at = self._feed_line(text, at, lines)
        return "".join(lines)

    def _rest(self) -> str:
        return self._line("line rest") if self._parts else ""

    def _hold_back(self, text: str) -> str:
        """The beginning of an escape at the end of a piece waits for the next one."""
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_ESCAPE))
        self._held = unfinished[0] if unfinished else ""
        return text[: len(text) - len(self._held)]

    def _write_whole(self, line: str) -> bool:
        """In one go, if it has nothing but colours; False when it must be read bit by bit."""
        if self._length or self._returned or len(line) > self.longest_line or "\r" in line:
            return False
        text, *coloured = _COLOUR.split(line)
        if line.count("\x1b") * 2 != len(coloured):
            return False
        style, parts = self._style, self._parts
        if text:
            parts.append((style, text))
        for numbers, text in zip(coloured[::2], coloured[1::2], strict=True):
            style = apply_sgr(style, numbers)
            if not text:
                continue
            if parts and parts[-1][0] == style:
                parts[-1] = (style, parts[-1][1] + text)
            else:
                parts.append((style, text))
        self._style = style
        return True

    def _feed_line(self, text: str, at: int, lines: list[str]) -> int:
        """Up to its end, or to that of the text; where it goes on."""
        number = len(lines)
        while at < len(text) and len(lines) == number:
            token = _TOKEN.search(text, at)
            if token is None:
                self._write(text[at:])
                return len(text)
            self._write(text[at : token.start()])
            at = self._obey(token, text, lines)
        return at

    def _obey(self, token: re.Match[str], text: str, lines: list[str]) -> int:
        if token["end"]:
            self._end_line(lines)
        elif token["back"]:
            self._returned = True
        elif token["string"]:
            self._in_string = True
            return self._after_string(text, token.end())
        elif token["final"] == "m":
            self._style = apply_sgr(self._style, token["numbers"])
        elif token["final"] == "G" and token["numbers"] in {"", "0", "1"}:
            # What some programs write for a carriage return.
            self._returned = True
        return token.end()

    def _after_string(self, text: str, at: int) -> int:
        if not self._in_string:
            return at
        end = _STRING_END.search(text, at)
        if end is None:
            return len(text)
        self._in_string = False
        return end.end()

    def _end_line(self, lines: list[str]) -> None:
        lines.append(self._line("line") + "\n")
        self._begin_line()

    def _begin_line(self) -> None:
        self._parts: list[tuple[Style, str]] = []
        self._length = 0
        self._is_cut = False
        self._returned = False

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._returned:
            self._begin_line()
        kept = text[: self.longest_line - self._length]
        self._is_cut = self._is_cut or len(kept) < len(text)
        self._length += len(kept)
        if kept and self._parts and self._parts[-1][0] == self._style:
            kept = self._parts.pop()[1] + kept
        if kept:
            self._parts.append((self._style, kept))

    def _line(self, css_class: str) -> str:
        raise NotImplementedError


class AnsiLines(_TerminalLines):
    """As HTML: a line is `<span class="line">…</span>`, the unfinished one
    `<span class="line rest">…</span>`: whoever appends the lines puts that one last and takes it
    away before the next piece."""

    def feed(self, text: str) -> Markup:
        return Markup(self._feed(text))  # noqa: S704 - made of `_html`, which escapes

    def rest(self) -> Markup:
        return Markup(self._rest())  # noqa: S704 - made of `_html`, which escapes

    def _line(self, css_class: str) -> str:
        mark = f'<span class="a-cut">{CUT_MARK}</span>' if self._is_cut else ""
        return f'<span class="{css_class}">{"".join(map(_html, self._parts))}{mark}</span>'


class PlainLines(_TerminalLines):
    """As plain text, for a file."""

    longest_line = LONGEST_PLAIN_LINE

    def feed(self, text: str) -> str:
        return self._feed(text)

    def rest(self) -> str:
        return self._rest()

    def _line(self, css_class: str) -> str:  # noqa: ARG002 - a file has no classes
        text = visible("".join(text for _, text in self._parts))
        return text + CUT_MARK if self._is_cut else text


def _html(part: tuple[Style, str]) -> str:
    style, text = part
    safe = text if _is_plain(text) else escape(visible(text))
    return safe if style is PLAIN else _in_span(style.classes, safe)


def _in_span(classes: str, safe: str) -> str:
    return f'<span class="{classes}">{safe}</span>' if classes else safe
