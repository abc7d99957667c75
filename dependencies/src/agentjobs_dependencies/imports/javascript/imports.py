"""Imports of a JavaScript or TypeScript file, by their quoted names.

`import`, `export … from`, and `require` and `import()` with one literal name.
"""

import re

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule

_COMMENT = r"//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)(?:\*/)?"
# A string that is not closed ends with its line.
_STRING = r"\"(?>(?:[^\"\\\n]++|\\.)*)\"?|'(?>(?:[^'\\\n]++|\\.)*)'?"
# Otherwise a slash divides, or ends a tag.
_EXPRESSION = (
    r"/(?:(?<=[(,=:\[!&|?{;+*^~>\n]/)|(?<=[(,=:\[!&|?{;+*^~>n] /))(?![*/ ])"
    r"(?>(?:[^/\\\[\n]++|\\[^\n]|\[(?>(?:[^\]\\\n]|\\[^\n]){0,200})\])+)/"
)
# How deep templates are read that contain code with other templates.
_TEMPLATE_DEPTH = 3


def _build_template() -> str:
    code = template = ""
    for _ in range(_TEMPLATE_DEPTH):
        inner = rf"|\{{{code}\}}|{template}" if code else ""
        code = rf"(?>(?:[^{{}}\"'`/]++|{_STRING}|{_COMMENT}|/{inner})*)"
        template = rf"`(?>(?:[^`\\$]++|\\.|\$(?!\{{)|\$\{{{code}\}})*)`"
    return template


_GAP = rf"(?>(?:\s++|{_COMMENT})*)"
_LITERAL = r"(?:\"[^\"\\\n]*+\"|'[^'\\\n]*+'|`[^`\\$\n]*+`)"
# Lookbehinds follow the word, so that the search starts with a literal.
_IMPORT = r"import(?<![\w$.]import)"
_EXPORT = r"export(?<![\w$.]export)(?=\s*+(?>(?:type\s++)?)[{*])"
_REQUIRE = r"require(?<![\w$]require)(?<![\w$)\]?]\.require)"
# The names end before the next statement, so that no text is read twice.
_NAMES = (
    r"(?![\w$])(?>(?:(?!(?:import|export)(?![\w$])|from\s*+[\"'])[\w$\x80-\xff]++|[\s,{}*]++|"
    rf"{_COMMENT})*)from\s*+"
)
_CALL = rf"{_GAP}\({_GAP}(?={_LITERAL}{_GAP}[,)])"
_STATEMENT = (
    rf"(?:{_IMPORT}(?:{_GAP}|{_NAMES}|{_CALL})|{_EXPORT}{_NAMES}|{_REQUIRE}{_CALL})({_LITERAL})"
)
_TOKEN = re.compile(
    f"{_COMMENT}|{_STRING}|{_build_template()}|{_EXPRESSION}|{_STATEMENT}".encode("latin-1"),
    re.DOTALL,
)
_MAX_STATEMENT_BYTES = 1_000


def find_javascript(content: bytes) -> ParsedModule:
    last = max(map(content.rfind, (b"import", b"require", b"from")))
    if last < 0:
        return ParsedModule()
    literals = dict.fromkeys(_TOKEN.findall(content, 0, last + _MAX_STATEMENT_BYTES))
    names = (literal[1:-1].decode(errors="replace") for literal in literals)
    return ParsedModule(tuple([name for name in names if name][:MAX_IMPORTS]))
