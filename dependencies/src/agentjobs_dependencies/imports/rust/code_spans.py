"""Tells which positions of a Rust file are code, not in strings or comments."""

import re

_STRING = (
    rb"(?:(?<=\Wr)\"[^\"]*+\"|(?<=\W[bc]r)\"[^\"]*+\""
    rb"|(?<!\Wr)(?<!\W[bc]r)\"(?>(?:[^\"\\]++|\\.)*)\")"
)
_CHARACTER = rb"'(?:\\[^\n][^'\n]{0,10}+|[^\\'\n\x80-\xff]|[\x80-\xff]{2,4}+)'"
# Complete tokens only: the end of the search could cut a token in two.
_CODE = re.compile(
    rb"(?>(?:[^\"'/#]++|//[^\n]*+\n|"
    + _STRING
    + rb"|"
    + _CHARACTER
    + rb"|'|\#++(?!\")|/(?![/*]))*)",
    re.DOTALL,
)
_TOKEN = re.compile(_STRING + rb"|" + _CHARACTER, re.DOTALL)
_RAW = re.compile(rb"(#++)\"")
_COMMENT_EDGE = re.compile(rb"/\*|\*/")


class RustCode:
    """Answers for ascending positions. Everything before `at` is lexed, and `at` is code."""

    __slots__ = ("at", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def is_code(self, position: int) -> bool:
        """True if the position is code."""
        while self.at < position:
            code = _CODE.match(self.content, self.at, position)
            self.at = code.end() if code is not None else self.at
            if self.at < position:
                self.at = self._token_end(self.at)
        return self.at == position

    def skip_to(self, position: int) -> None:
        """The caller has lexed everything up to here, and `position` is code."""
        self.at = max(self.at, position)

    def _token_end(self, begin: int) -> int:
        """The end of a token that `_CODE` does not match."""
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
        # An unterminated string extends to the end of the file.
        return len(content) if content.startswith(b'"', begin) else begin + 1

    def _comment_end(self, begin: int) -> int:
        """Comments nest."""
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self.content, begin):
            depth += 1 if edge[0] == b"/*" else -1
            if not depth:
                return edge.end()
        return len(self.content)
