"""Tells which positions of a Python file are code, not in strings or comments.

Lexes only the lines that matter, and jumps over triple-quoted strings.
"""

import re

from agentjobs_dependencies.imports.string_spans import StringSpans

_MARK = re.compile(rb"[\"'#]")
_BACKSLASH = ord("\\")
# The first search for quotes is limited: most files continue far beyond their last import.
_AHEAD_BYTES = 1_000


class PythonCode:
    """Answers for ascending positions. Everything before `at` is lexed, and `at` is code.

    Between `floor` and the last queried position there is no string over several lines and no
    comment that ends in a backslash.
    """

    __slots__ = ("_doubles", "_horizon", "_singles", "_strings", "at", "content", "floor")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = self.floor = 0
        # The next triple quotes of both kinds, or the horizon if there are none before it.
        self._doubles = self._singles = self._horizon = -1
        self._strings: StringSpans | None = None

    def is_plain_code(self, line: int, position: int) -> bool:
        """`is_code` for a position whose line has only words and no backslash before it."""
        if self._doubles < position or self._singles < position:
            self._pass_quotes(position)
        return self.at <= line

    def is_code(self, position: int) -> bool:
        """True if the position is code."""
        self._pass_quotes(position)
        begin = self._line_start(position)
        if begin < position and _MARK.search(self.content, begin, position):
            self.at = begin
            self._lex_to(position)
        return self.at <= position

    def skip_to(self, position: int) -> None:
        """The caller has lexed everything up to here, and `position` is code."""
        self.at = self.floor = position

    def _line_start(self, position: int) -> int:
        """The start of the logical line, which backslashes may join from several."""
        content, at = self.content, self.at
        line = content.rfind(b"\n", at, position) + 1
        while line > at and content[line - 2] == _BACKSLASH:
            line = content.rfind(b"\n", at, line - 1) + 1
        return max(at, line)

    def _pass_quotes(self, position: int) -> None:
        content = self.content
        while (quotes := self._next_quotes(position)) < position:
            line = self._line_start(quotes) if quotes > self.at else quotes
            if line < quotes and _MARK.search(content, line, quotes):
                self.at = line
                self._lex_to(quotes + 1)
            else:
                self.at = self.floor = self._triple_end(quotes)

    def _next_quotes(self, position: int) -> int:
        """The next triple quotes that are not lexed yet, or a position after this one."""
        known, content = self._horizon, self.content
        if known < position:
            self._horizon = 2 * position + _AHEAD_BYTES
        at, doubles, singles = self.at, self._doubles, self._singles
        # Quotes may span the old horizon.
        seen = at if at > known else max(at, known - 2)
        if doubles < at or doubles == known < position:
            begin = at if doubles < known else seen
            doubles = content.find(b'"""', begin, self._horizon)
            self._doubles = doubles = doubles if doubles >= 0 else self._horizon
        if singles < at or singles == known < position:
            begin = at if singles < known else seen
            singles = content.find(b"'''", begin, self._horizon)
            self._singles = singles = singles if singles >= 0 else self._horizon
        return min(singles, doubles)

    def _lex_to(self, position: int) -> None:
        """Lex every string and comment that starts before the position."""
        content = self.content
        while mark := _MARK.search(content, self.at, position):
            begin = mark.start()
            if content[begin] == ord("#"):
                end = content.find(b"\n", begin)
                self.at = self.floor = end if end >= 0 else len(content)
            elif content.startswith((b'"""', b"'''"), begin):
                self.at = self.floor = self._triple_end(begin)
            else:
                if self._strings is None:
                    self._strings = StringSpans(content)
                self.at = self.floor = self._strings.end(begin)

    def _triple_end(self, begin: int) -> int:
        content = self.content
        quotes = content[begin : begin + 3]
        end = content.find(quotes, begin + 3)
        while end >= 0:
            if content[end - 1] != _BACKSLASH:
                return end + 3
            last = end - 1
            while last >= begin + 3 and content[last] == _BACKSLASH:
                last -= 1
            if (end - last) % 2:
                return end + 3
            end = content.find(quotes, end + 1)
        return len(content)
