"""Which places of a Python file are code, and which lie in strings or comments.

Only lines that matter are read: strings over several lines are jumped, all else is skipped.
"""

import re

from agentjobs.inventory.imports.strings import Strings

_MARK = re.compile(rb"[\"'#]")
_BACKSLASH = ord("\\")
# How far ahead quotes are looked for at first: most files end far behind their last import.
_AHEAD_BYTES = 1_000


class PythonCode:
    """Answers for places in rising order. What lies before `at` is understood and `at` is code.

    Between `floor` and the last place asked for there is neither a string over several lines nor
    a comment that ends in a backslash.
    """

    __slots__ = ("_doubles", "_horizon", "_singles", "_strings", "at", "content", "floor")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = self.floor = 0
        # The next triple quotes of both kinds; those not seen before the horizon count as on it.
        self._doubles = self._singles = self._horizon = -1
        self._strings: Strings | None = None

    def holds_plain(self, line: int, place: int) -> bool:
        """`holds` for a place that has only words before it in its line, and no backslash."""
        if self._doubles < place or self._singles < place:
            self._pass_quotes(place)
        return self.at <= line

    def holds(self, place: int) -> bool:
        """Whether the place is code."""
        self._pass_quotes(place)
        begin = self._line_of(place)
        if begin < place and _MARK.search(self.content, begin, place):
            self.at = begin
            self._lex_to(place)
        return self.at <= place

    def skip_to(self, place: int) -> None:
        """The caller understood everything up to here, and it ends in code."""
        self.at = self.floor = place

    def _line_of(self, place: int) -> int:
        """Where its line begins, or the first of the lines that backslashes join to it."""
        content, at = self.content, self.at
        line = content.rfind(b"\n", at, place) + 1
        while line > at and content[line - 2] == _BACKSLASH:
            line = content.rfind(b"\n", at, line - 1) + 1
        return max(at, line)

    def _pass_quotes(self, place: int) -> None:
        content = self.content
        while (quotes := self._next_quotes(place)) < place:
            line = self._line_of(quotes) if quotes > self.at else quotes
            if line < quotes and _MARK.search(content, line, quotes):
                self.at = line
                self._lex_to(quotes + 1)
            else:
                self.at = self.floor = self._triple_end(quotes)

    def _next_quotes(self, place: int) -> int:
        """The first triple quotes not understood yet; some place not before this if none is."""
        known, content = self._horizon, self.content
        if known < place:
            self._horizon = 2 * place + _AHEAD_BYTES
        at, doubles, singles = self.at, self._doubles, self._singles
        # Quotes may lie across the old horizon.
        seen = at if at > known else max(at, known - 2)
        if doubles < at or doubles == known < place:
            begin = at if doubles < known else seen
            doubles = content.find(b'"""', begin, self._horizon)
            self._doubles = doubles = doubles if doubles >= 0 else self._horizon
        if singles < at or singles == known < place:
            begin = at if singles < known else seen
            singles = content.find(b"'''", begin, self._horizon)
            self._singles = singles = singles if singles >= 0 else self._horizon
        return min(singles, doubles)

    def _lex_to(self, place: int) -> None:
        """Over every string and comment that begins before the place."""
        content = self.content
        while mark := _MARK.search(content, self.at, place):
            begin = mark.start()
            if content[begin] == ord("#"):
                end = content.find(b"\n", begin)
                self.at = self.floor = end if end >= 0 else len(content)
            elif content.startswith((b'"""', b"'''"), begin):
                self.at = self.floor = self._triple_end(begin)
            else:
                if self._strings is None:
                    self._strings = Strings(content)
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
