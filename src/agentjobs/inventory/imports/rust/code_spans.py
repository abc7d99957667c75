"""Which places of a Rust file are code, and which lie in strings or comments."""

import re

_STRING = (
    rb"(?:(?<=\Wr)\"[^\"]*+\"|(?<=\W[bc]r)\"[^\"]*+\""
    rb"|(?<!\Wr)(?<!\W[bc]r)\"(?:[^\"\\]++|\\.)*+\")"
)
_CHARACTER = rb"'(?:\\[^\n][^'\n]{0,10}+|[^\\'\n\x80-\xff]|[\x80-\xff]{2,4}+)'"
# A comment must have its end, and so must all else that the search's end could cut in two.
_CODE = re.compile(
    rb"(?:[^\"'/#]++|//[^\n]*+\n|" + _STRING + rb"|" + _CHARACTER + rb"|'|\#++(?!\")|/(?![/*]))*+",
    re.DOTALL,
)
_TOKEN = re.compile(_STRING + rb"|" + _CHARACTER, re.DOTALL)
_RAW = re.compile(rb"(#++)\"")
_COMMENT_EDGE = re.compile(rb"/\*|\*/")


class RustCode:
    """Answers for places in rising order. What lies before `at` is understood and `at` is code."""

    __slots__ = ("at", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def holds(self, place: int) -> bool:
        """Whether the place is code."""
        while self.at < place:
            code = _CODE.match(self.content, self.at, place)
            self.at = code.end() if code is not None else self.at
            if self.at < place:
                self.at = self._token_end(self.at)
        return self.at == place

    def skip_to(self, place: int) -> None:
        """The caller understood everything up to here, and it ends in code."""
        self.at = max(self.at, place)

    def _token_end(self, begin: int) -> int:
        """Behind what was not read as code, because the place is in it or it is rare."""
        content = self.content
        if content.startswith(b"//", begin):
            end = content.find(b"\n", begin)
            return end + 1 if end >= 0 else len(content)
        if content.startswith(b"/*", begin):
            return self._comment_end(begin)
        if raw := _RAW.match(content, begin):
            end = content.find(b'"' + raw[1], raw.end())
            return end + 1 + len(raw[1]) if end >= 0 else len(content)
        if token := _TOKEN.match(content, begin):
            return token.end()
        # A string without end: the rest of the file.
        return len(content) if content.startswith(b'"', begin) else begin + 1

    def _comment_end(self, begin: int) -> int:
        """Comments nest."""
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self.content, begin):
            depth += 1 if edge[0] == b"/*" else -1
            if not depth:
                return edge.end()
        return len(self.content)
