"""Imports of a JavaScript or TypeScript file, by the name that stands in its quotes.

`import`, `export … from`, and `require` and `import()` with one literal name.
"""

import re

from agentjobs.inventory.imports.javascript.code_spans import JavaScriptCode
from agentjobs.inventory.imports.limits import MAX_IMPORTS
from agentjobs.inventory.model import ModuleFacts

# Looking back comes after the word, so that the search is for the plain word.
_WORDS = (
    re.compile(rb"import(?<![\w$.]import)(?=[\s\"'({*`/])"),
    re.compile(rb"export(?<![\w$.]export)(?=\s*+(?:type\s++)?+[{*])"),
    re.compile(rb"require(?<![\w$]require)(?<![\w$)\]?]\.require)(?=\s*+\()"),
)
# A comment in a call is short: one that never ends must not be read for every call before it.
_CALL = re.compile(
    rb"\s*+\(\s*+(?:/\*(?:[^*]|\*(?!/)){0,500}+\*/\s*+|//[^\n]{0,500}+\n\s*+)*+"
    rb"(?:\"([^\"\\\n]*+)\"|'([^'\\\n]*+)'|`([^`\\$\n]*+)`)\s*+[,)]"
)
_CLAUSE = re.compile(rb"[\w$\s,{}*\x80-\xff]*+")
_LITERAL = re.compile(rb"\"([^\"\\\n]*+)\"|'([^'\\\n]*+)'")
_ENDS_CLAUSE = re.compile(rb"(?:^|[^\w$])(?:from|import)\Z")
_LAST_WORD_BYTES = 100


def find_javascript(content: bytes) -> ModuleFacts:
    places = sorted([match.start() for word in _WORDS for match in word.finditer(content)])
    if not places:
        return ModuleFacts()
    code = JavaScriptCode(content)
    found: dict[bytes, None] = {}
    for place in places:
        if code.holds(place):
            name = _name_after(code, place)
            if name:
                found[name] = None
    names = [name.decode(errors="replace") for name in found]
    return ModuleFacts(tuple(names[:MAX_IMPORTS]))


def _name_after(code: JavaScriptCode, place: int) -> bytes | None:
    content = code.content
    if content.startswith(b"require", place):
        call = _CALL.match(content, place + 7)
    else:
        call = _CALL.match(content, place + 6)
        if call is None:
            return _name_of_clause(code, place)
    return call[call.lastindex or 0] if call is not None else None


def _name_of_clause(code: JavaScriptCode, place: int) -> bytes | None:
    """What stands in quotes after `import`, or after `from` behind the names."""
    content = code.content
    at, word = place + 6, content[place : place + 6]
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
        # Names without end may hold the word that begins the next statement.
        next_word = content.rfind(b"import", clause.start(), at)
        code.skip_to(next_word if next_word >= 0 else at)
        return None
    code.skip_to(literal.end())
    return literal[literal.lastindex or 0] if _ENDS_CLAUSE.search(word) else None
