"""Strings between single or double quotes, whose line may go on behind a backslash."""

import re

# The group is the quote at its end, if it has one.
_STRING = re.compile(rb"\"(?:[^\"\\\n]++|\\.)*+(\")?|'(?:[^'\\\n]++|\\.)*+(')?", re.DOTALL)


class Strings:
    """Where strings end. However many in a file have no end, each place is read once for them.

    A quote within a string that has no end is escaped: a string from there would have none either.
    """

    __slots__ = ("_broken", "_content", "broken_until")

    def __init__(self, content: bytes) -> None:
        self._content = content
        # For each kind of quote: before this place, none begins a string.
        self._broken = {ord('"'): 0, ord("'"): 0}
        self.broken_until = 0

    def end(self, begin: int) -> int:
        """Behind the string, or behind its quote if that begins none."""
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
