"""Counts the values of a JSON text before it is parsed. Pure; checks nothing."""

_SEPARATORS = b",[{"


class ValueCounter:
    """The text arrives in pieces. A key and its value count as one, and so does an empty list.

    Only operations on whole pieces: a million values must not take longer than parsing them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._is_inside_string = False
        self._escape = b""

    def feed(self, data: bytes) -> None:
        data = (self._escape + data).replace(rb"\\", b"")
        # It belongs to the first character of the next piece.
        self._escape = data[-1:] if data.endswith(b"\\") else b""
        parts = data.removesuffix(b"\\").replace(rb"\"", b"").split(b'"')
        outside = b"".join(parts[self._is_inside_string :: 2])
        self.count += len(outside) - len(outside.translate(None, _SEPARATORS))
        self._is_inside_string ^= len(parts) % 2 == 0
