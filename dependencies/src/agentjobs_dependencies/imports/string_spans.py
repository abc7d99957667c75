"""Ends of single- and double-quoted strings, which may continue after a backslash."""

import re

# The group is the closing quote, if there is one.
_STRING = re.compile(rb"\"(?>(?:[^\"\\\n]++|\\.)*)(\")?|'(?>(?:[^'\\\n]++|\\.)*)(')?", re.DOTALL)


class StringSpans:
    """Finds the ends of strings in linear time, even if many strings are unterminated.

    A quote inside an unterminated string starts an unterminated string, too.
    """

    __slots__ = ("_broken", "_content", "broken_until")

    def __init__(self, content: bytes) -> None:
        self._content = content
        # For each kind of quote: none before this position starts a terminated string.
        self._broken = {ord('"'): 0, ord("'"): 0}
        self.broken_until = 0

    def end(self, begin: int) -> int:
        """The end of the string, or of the quote if the string is unterminated."""
        quote = self._content[begin]
        if begin < self._broken[quote]:
            return begin + 1
        string = _STRING.match(self._content, begin)
        assert string is not None
        if string.lastindex is not None:
            return string.end()
        self._broken[quote] = string.end()
        self.broken_until = max(self.broken_until, string.end())
        return begin + 1
