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

# An unfinished escape sequence longer than this is treated as text.
_MAX_ESCAPE_LENGTH = 256
_TOKEN = re.compile(
    r"\x1b\[(?P<numbers>[0-?]{0,200})[ -/]{0,8}(?P<final>[@-~])"
    r"|(?P<string>\x1b[\]PX^_])"
    r"|(?P<end>\r?\n)"
    r"|(?P<back>\r)"
    r"|\x1b[ -/]{0,8}[0-~]?"
)
# The only escape sequences in most lines.
_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,200})m")
# Printable text that needs no escaping.
_is_plain = re.compile(r"[ !#-%(-;=?-~]*").fullmatch
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,200})?[ -/]{0,8}\Z|\r\Z")
# Unlike a terminal, a line end terminates an unfinished string.
_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|(?=\n)")


class _TerminalLines:
    """An incremental parser; styles and lines may continue across pieces.

    `_feed` returns the completed lines, `_rest` the unfinished one.
    """

    max_line_length = MAX_LINE_LENGTH

    def __init__(self) -> None:
        self._style = PLAIN
        self._held = ""
        self._in_string = False
        self._begin_line()

    def _feed(self, text: str) -> str:
        lines: list[str] = []
        text = self._hold_back(self._held + text)
        position = self._after_string(text, 0)
        while position < len(text):
            end = text.find("\n", position)
            if end >= 0 and self._write_whole(text[position:end]):
                self._end_line(lines)
                position = end + 1
            else:
                position = self._feed_line(text, position, lines)
        return "".join(lines)

    def _rest(self) -> str:
        self._end_run()
        return self._line("line rest") if self._parts else ""

    def _hold_back(self, text: str) -> str:
        """Keeps an unfinished escape sequence for the next piece."""
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MAX_ESCAPE_LENGTH))
        self._held = unfinished[0] if unfinished else ""
        return text[: len(text) - len(self._held)]

    def _write_whole(self, line: str) -> bool:
        """Fast path for lines with colours only; False if the line needs the full parser."""
        if self._length or self._has_returned or len(line) > self.max_line_length or "\r" in line:
            return False
        text, *coloured = _COLOUR.split(line)
        if line.count("\x1b") * 2 != len(coloured):
            return False
        if text:
            self._add(text)
        for numbers, text in zip(coloured[::2], coloured[1::2], strict=True):
            self._style = apply_sgr(self._style, numbers)
            if text:
                self._add(text)
        return True

    def _feed_line(self, text: str, position: int, lines: list[str]) -> int:
        """Processes up to the end of the line or text, and returns the new position."""
        number = len(lines)
        while position < len(text) and len(lines) == number:
            token = _TOKEN.search(text, position)
            if token is None:
                self._write(text[position:])
                return len(text)
            self._write(text[position : token.start()])
            position = self._apply_token(token, text, lines)
        return position

    def _apply_token(self, token: re.Match[str], text: str, lines: list[str]) -> int:
        if token["end"]:
            self._end_line(lines)
        elif token["back"]:
            self._has_returned = True
        elif token["string"]:
            self._in_string = True
            return self._after_string(text, token.end())
        elif token["final"] == "m":
            self._style = apply_sgr(self._style, token["numbers"])
        elif token["final"] == "G" and token["numbers"] in {"", "0", "1"}:
            # Some programs write this instead of a carriage return.
            self._has_returned = True
        return token.end()

    def _after_string(self, text: str, position: int) -> int:
        if not self._in_string:
            return position
        end = _STRING_END.search(text, position)
        if end is None:
            return len(text)
        self._in_string = False
        return end.end()

    def _end_line(self, lines: list[str]) -> None:
        self._end_run()
        lines.append(self._line("line") + "\n")
        self._begin_line()

    def _begin_line(self) -> None:
        self._parts: list[tuple[Style, str]] = []
        self._run: list[str] = []
        self._run_style = self._style
        self._length = 0
        self._is_cut = False
        self._has_returned = False

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._has_returned:
            self._begin_line()
        visible_part = text[: self.max_line_length - self._length]
        self._is_cut = self._is_cut or len(visible_part) < len(text)
        self._length += len(visible_part)
        if visible_part:
            self._add(visible_part)

    def _add(self, text: str) -> None:
        """Collects text of one style, because appending to a string takes time in its length."""
        if self._style != self._run_style:
            self._end_run()
            self._run_style = self._style
        self._run.append(text)

    def _end_run(self) -> None:
        if not self._run:
            return
        if self._parts and self._parts[-1][0] == self._run_style:
            self._run.insert(0, self._parts.pop()[1])
        self._parts.append((self._run_style, "".join(self._run)))
        self._run = []

    def _line(self, css_class: str) -> str:
        raise NotImplementedError


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
        html = Markup(self._feed(text))  # noqa: S704 - made of `_html`, which escapes
        if self._length:
            self._line_time = self._line_time or time
        return html

    def rest(self) -> Markup:
        return Markup(self._rest())  # noqa: S704 - made of `_html`, which escapes

    def _end_line(self, lines: list[str]) -> None:
        super()._end_line(lines)
        self._shown_time, self._line_time = self._line_time or self._time, ""

    def _line(self, css_class: str) -> str:
        mark = f'<span class="a-cut">{CUT_MARK}</span>' if self._is_cut else ""
        time = self._line_time or self._time
        at = f' data-at="{escape(time)}"' if time != self._shown_time else ""
        return f'<span class="{css_class}"{at}>{"".join(map(_html, self._parts))}{mark}</span>'


class PlainLines(_TerminalLines):
    """Lines as plain text, for downloads."""

    max_line_length = MAX_PLAIN_LINE_LENGTH

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
