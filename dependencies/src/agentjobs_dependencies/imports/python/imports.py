"""Imports of a Python file, the same as in its syntax tree, names without parsing it.

`import` is a keyword, so outside of strings and comments it always belongs to a statement.
A name reads `a.b`; `from ..a import b, c` reads `..a:b,c`.
"""

import re
import unicodedata

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule

# A string that is not closed ends with its line, or with the file.
_STRING = "|".join(
    rf"{q}(?:{q}{q}(?>(?:[^{q}\\]++|\\.|{q}(?!{q}{q}))*)(?:{q}{q}{q})?|(?>(?:[^{q}\\\n]++|\\.)*){q}?)"
    for q in "\"'"
)
_COMMENT = r"#[^\n]*+"
_COMMENTS = rf"{_COMMENT}(?>(?:\s*+{_COMMENT})*)"
_GAP = r"(?>(?:[ \t\f]++|\\\n)*)"
_WORD = r"[\w\x80-\xff]++"
# Lookbehinds follow the word, so that the search starts with a literal.
_IMPORT = r"import(?<![\w\x80-\xff]import)(?![\w\x80-\xff])"
_FROM = r"from(?<![\w.\x80-\xff]from)(?=[\s.\\])"
_PATH = (
    rf"(?>(?:{_GAP}\.)*){_GAP}"
    rf"(?>(?:(?!import(?![\w\x80-\xff])){_WORD}(?>(?:{_GAP}\.{_GAP}{_WORD}){{0,50}}))?)"
)
_NAMES = (
    rf"{_GAP}(\((?>(?:[\w.,*\s\x80-\xff]++|\\\n|{_COMMENT})*)\)"
    r"|(?>(?:[\w.,* \t\f\x80-\xff]++|\\\n)*))"
)
_TOKEN = re.compile(
    f"{_STRING}|{_COMMENTS}|{_FROM}({_PATH}){_GAP}{_IMPORT}{_NAMES}|{_IMPORT}{_NAMES}".encode(
        "latin-1"
    ),
    re.DOTALL,
)
_COMMENT_IN_NAMES = re.compile(_COMMENT.encode())
_RENAMED = re.compile(rb"\sas\s+[\w\x80-\xff]+")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_IN_NAMES = b" \t\n\r\f\v()"
# The last list of names may go on for so long after a parenthesis in a comment.
_AHEAD_BYTES = 100


def find_python(content: bytes) -> ParsedModule:
    content = content.removeprefix(_BYTE_ORDER_MARK)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # Most of a file follows its last import and is not searched.
    last = content.rfind(b"import")
    if last < 0:
        return ParsedModule()
    closing = content.find(b")", last)
    end = closing + _AHEAD_BYTES if closing >= 0 else len(content)
    statements = [
        module + b":" + names if module else modules.replace(b",", b";")
        for module, names, modules in _TOKEN.findall(content, 0, end)
        if module or modules
    ]
    return ParsedModule(_split(b";".join(statements)))


def _split(text: bytes) -> tuple[str, ...]:
    if b"#" in text:
        text = _COMMENT_IN_NAMES.sub(b"", text)
    text = text.replace(b"\\\n", b" ")
    if b"as" in text:
        text = _RENAMED.sub(b"", text)
    text = text.translate(None, _NOT_IN_NAMES)
    names = dict.fromkeys(text.replace(b",;", b";").rstrip(b",").split(b";"))
    names.pop(b"", None)
    decoded = b"\n".join(names).decode(errors="replace")
    if not decoded.isascii():
        decoded = unicodedata.normalize("NFKC", decoded)
    return tuple(decoded.split("\n", MAX_IMPORTS)[:MAX_IMPORTS]) if decoded else ()
