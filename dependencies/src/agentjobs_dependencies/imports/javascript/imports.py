"""Imports of a JavaScript or TypeScript file, by their quoted names.

`import`, `export … from`, and `require` and `import()` with one literal name.
"""

import re

from agentjobs_dependencies.imports.javascript.code_spans import JavaScriptCode
from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule

# Lookbehinds follow the word, so that the search starts with a literal.
_KEYWORDS = (
    re.compile(rb"import(?<![\w$.]import)(?=[\s\"'({*`/])"),
    re.compile(rb"export(?<![\w$.]export)(?=\s*+(?>(?:type\s++)?)[{*])"),
    re.compile(rb"require(?<![\w$]require)(?<![\w$)\]?]\.require)(?=\s*+\()"),
)
# Comments in a call are limited: an unterminated one must not be read again for every call.
_CALL = re.compile(
    rb"\s*+\(\s*+(?>(?:/\*(?>(?:[^*]|\*(?!/)){0,500})\*/\s*+|//[^\n]{0,500}+\n\s*+)*)"
    rb"(?:\"([^\"\\\n]*+)\"|'([^'\\\n]*+)'|`([^`\\$\n]*+)`)\s*+[,)]"
)
_CLAUSE = re.compile(rb"[\w$\s,{}*\x80-\xff]*+")
_LITERAL = re.compile(rb"\"([^\"\\\n]*+)\"|'([^'\\\n]*+)'")
_ENDS_CLAUSE = re.compile(rb"(?:^|[^\w$])(?:from|import)\Z")
_LAST_WORD_BYTES = 100


def find_javascript(content: bytes) -> ParsedModule:
    positions = sorted([match.start() for word in _KEYWORDS for match in word.finditer(content)])
    if not positions:
        return ParsedModule()
    code = JavaScriptCode(content)
    names: dict[bytes, None] = {}
    for position in positions:
        if code.is_code(position):
            name = _name_after(code, position)
            if name:
                names[name] = None
    texts = [name.decode(errors="replace") for name in names]
    return ParsedModule(tuple(texts[:MAX_IMPORTS]))


def _name_after(code: JavaScriptCode, position: int) -> bytes | None:
    content = code.content
    if content.startswith(b"require", position):
        call = _CALL.match(content, position + 7)
    else:
        call = _CALL.match(content, position + 6)
        if call is None:
            return _name_of_clause(code, position)
    return call[call.lastindex or 0] if call is not None else None


def _name_of_clause(code: JavaScriptCode, position: int) -> bytes | None:
    """The quoted name after `import`, or after `from`."""
    content = code.content
    at, word = position + 6, content[position : position + 6]
    while True:
        clause = _CLAUSE.match(content, at)
        assert clause is not None
        words = content[max(at, clause.end() - _LAST_WORD_BYTES) : clause.end()].split()
        at, word = clause.end(), words[-1] if words else word
        comment = code.comment_end(at)
        if comment is None:
            break
        at = comment
    literal = _LITERAL.match(content, at)
    if literal is None:
        # An incomplete list of names may contain the keyword of the next statement.
        next_word = content.rfind(b"import", clause.start(), at)
        code.skip_to(next_word if next_word >= 0 else at)
        return None
    code.skip_to(literal.end())
    return literal[literal.lastindex or 0] if _ENDS_CLAUSE.search(word) else None
