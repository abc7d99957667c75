"""Tells which positions of a JavaScript file are code, not in strings, comments or templates.

Lexes only the lines that matter, and jumps over comments and templates. The content of `${…}`
counts as part of the template.
"""

import re

from agentjobs_dependencies.imports.string_spans import StringSpans

# Complete tokens only: the end of the search could cut a token in two.
_SIMPLE = re.compile(
    rb"(?>(?:[^\"'/`]++"
    rb"|\"(?>(?:[^\"\\\n]++|\\.)*)\"|'(?>(?:[^'\\\n]++|\\.)*)'"
    rb"|//[^\n]*+\n|/\*(?>(?:[^*]++|\*(?!/))*)\*/"
    rb"|`(?>(?:[^`\\$]++|\\.|\$(?!\{)|\$\{[^{}`'\"/]*+\})*)`)*)",
    re.DOTALL,
)
# How many bytes are lexed at once around a comment or template.
_CHUNK_BYTES = 1_500
_MARK_IN_TEMPLATE = re.compile(rb"[\"'/`{}]")
_MARK = re.compile(rb"[\"'/`]")
_TEMPLATE_TEXT = re.compile(rb"(?>(?:[^`\\$]++|\\.|\$(?!\{))*)", re.DOTALL)
_EXPRESSION = re.compile(
    rb"/(?![*/])(?>(?:[^/\\\[\n]++|\\[^\n]|\[(?>(?:[^\]\\\n]++|\\[^\n])*)\])+)/", re.DOTALL
)
# A regular expression may extend to the end of its line: limits failed attempts per line.
_MAX_FAILURES = 16
# After these, a slash starts a regular expression; otherwise it divides or ends a tag.
_BEFORE_EXPRESSION = re.compile(
    rb"(?:^|[(,=:\[!&|?{;+\-*%^~>]|\b(?:return|typeof|case|in|of|delete|void|throw|do|else))\s*\Z"
)


class JavaScriptCode:
    """Answers for ascending positions. Everything before `at` is lexed, and `at` is code."""

    __slots__ = ("_comments", "_failed", "_failures", "_strings", "_templates", "at", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0
        self._comments = self._templates = -1
        self._strings = StringSpans(content)
        # The end of the last failed attempt at a regular expression, and the number of failures.
        self._failed = self._failures = 0

    def is_code(self, position: int) -> bool:
        """True if the position is code."""
        while (event := self._next_event()) < position:
            self._lex(event, min(position, event + _CHUNK_BYTES))
        if self.at < position:
            self._lex(position, position)
        return self.at == position

    def skip_to(self, position: int) -> None:
        """The caller has lexed everything up to here, and `position` is code."""
        self.at = max(self.at, position)

    def comment_end(self, at: int) -> int | None:
        """The end of the comment that starts here, if there is one."""
        content = self.content
        if content.startswith(b"/*", at):
            end = content.find(b"*/", at + 2)
            return end + 2 if end >= 0 else len(content)
        if content.startswith(b"//", at):
            end = content.find(b"\n", at)
            return end if end >= 0 else len(content)
        return None

    def _next_event(self) -> int:
        """The next token that may span several lines."""
        content, at = self.content, self.at
        if self._comments < at:
            start = content.find(b"/*", at)
            self._comments = start if start >= 0 else len(content)
        if self._templates < at:
            start = content.find(b"`", at)
            self._templates = start if start >= 0 else len(content)
        return min(self._comments, self._templates)

    def _lex(self, begin: int, end: int) -> None:
        """Lex from the line of `begin` to `end`, or to the end of the token that contains `end`."""
        content = self.content
        self.at = max(self.at, content.rfind(b"\n", self.at, begin) + 1)
        while self.at < end:
            if self.at < self._strings.broken_until:
                # `_SIMPLE` would be tried in vain at each quote of an unterminated string.
                mark = _MARK.search(content, self.at, end)
                self.at = mark.start() if mark is not None else end
            else:
                simple = _SIMPLE.match(content, self.at, end)
                self.at = simple.end() if simple is not None else self.at
            if self.at < end:
                is_template = content[self.at] == ord("`")
                self.at = (self._template_end if is_template else self._token_end)(self.at)

    def _token_end(self, begin: int) -> int:
        """The end of the string, comment or regular expression, or of the mark alone."""
        if self.content[begin] != ord("/"):
            return self._strings.end(begin)
        comment = self.comment_end(begin)
        return comment if comment is not None else self._expression_end(begin)

    def _expression_end(self, begin: int) -> int:
        """The end of the regular expression, or of the slash if it starts none."""
        content = self.content
        if begin >= self._failed:
            self._failures = 0
        elif self._failures == _MAX_FAILURES:
            return begin + 1
        before = content[max(content.rfind(b"\n", begin - 40, begin) + 1, begin - 40, 0) : begin]
        if not _BEFORE_EXPRESSION.search(before):
            return begin + 1
        expression = _EXPRESSION.match(content, begin)
        if expression is not None:
            return expression.end()
        self._failures += 1
        if begin >= self._failed:
            end = content.find(b"\n", begin)
            self._failed = end if end >= 0 else len(content)
        return begin + 1

    def _template_end(self, begin: int) -> int:
        """`stack` has, for each open `${`, the number of open braces inside."""
        content, at = self.content, begin + 1
        stack: list[int] = []
        in_text = True
        while at < len(content):
            if in_text:
                text = _TEMPLATE_TEXT.match(content, at)
                at = text.end() if text else at
                if content.startswith(b"${", at):
                    stack.append(0)
                    at, in_text = at + 2, False
                elif not stack:
                    return min(at + 1, len(content))
                else:
                    at, in_text = at + 1, False
                continue
            mark = _MARK_IN_TEMPLATE.search(content, at)
            if mark is None:
                break
            at, in_text = self._template_code(mark.start(), stack)
        return len(content)

    def _template_code(self, begin: int, stack: list[int]) -> tuple[int, bool]:
        """Where lexing continues after a mark in `${…}`, and whether that is template text."""
        mark = self.content[begin : begin + 1]
        if mark == b"`":
            return begin + 1, True
        if mark == b"{":
            stack[-1] += 1
        elif mark == b"}" and stack[-1]:
            stack[-1] -= 1
        elif mark == b"}":
            stack.pop()
            return begin + 1, True
        else:
            return self._token_end(begin), False
        return begin + 1, False
