"""Imports of a Python file, the same as in its syntax tree, names without parsing it.

`import` is a keyword, so outside of strings and comments it always belongs to a statement.
A name reads `a.b`; `from ..a import b, c` reads `..a:b,c`.
"""

import re
import unicodedata

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule
from agentjobs_dependencies.imports.python.code_spans import PythonCode
from agentjobs_dependencies.imports.python.source_text import normalize_source

_IMPORT = re.compile(rb"import(?<![\w\x80-\xff]import)(?=[ \t\f]*[(*\\]|[ \t\f]+[\w\x80-\xff])")
# A statement in one of the usual forms, on lines of its own.
_AS = rb"(?>(?:[ \t]++as[ \t]++\w++)?)"
_NAMES = rb"\w++" + _AS + rb"(?>(?:,[ \t]*+\w++" + _AS + rb")*)"
_NAMES_INSIDE = rb"\s*+\w++" + _AS + rb"(?>(?:,\s*+\w++" + _AS + rb")*)"
# Consecutive statements with comments and empty lines between, then the rest of the file. Groups:
# the statement; imported modules; or the module and the names imported from it, without or
# within parentheses.
_PLAIN = re.compile(
    rb"([ \t]*+(?:import[ \t]++([\w.]++" + _AS + rb"(?>(?:,[ \t]*+[\w.]++" + _AS + rb")*))"
    rb"|from[ \t]++([\w.]++)[ \t]++import[ \t]*+"
    rb"(?:((?<=[ \t])" + _NAMES + rb"|\*)|\((" + _NAMES_INSIDE + rb")\s*+,?\s*+\)))"
    rb"[ \t]*+(?>(?:#[^\n]*+)?)\n(?>(?:[ \t]*+(?>(?:#[^\n]*+)?)\n)*))"
    rb"|(?s:.++)"
)
_BLANKS = b" \t\n\r\f\v"
_RENAMED = re.compile(rb" as +\w+")
_FROM = re.compile(rb"[ \t\f]*from(?:[ \t]+|(?=\.))([\w.]+)(?:[ \t]+|(?<=\.))")
_BLANK = re.compile(rb"[ \t\f]*")
# Present if a statement starts within a line or has an unusual `from`.
_UNUSUAL = re.compile(rb"[:;\\]|from")
_MAX_PLAIN_HEAD = 400
_ON_ITS_LINE = re.compile(rb"(?>(?:[^\n;#\\()]++|\\\n)*)")
# No quotes: after a quote, `#` may not start a comment.
_IN_PARENTHESES = re.compile(rb"(?>(?:[ \t\f]|\\\n)*)\(((?>(?:[^()#\"']++|#[^\n]*+)*))\)")
_COMMENT = re.compile(rb"#[^\n]*+")
_NAME = re.compile(rb"[\w.*\x80-\xff]+")
# Bytes that may occur between `from` and `import`.
_MODULE_BYTES = bytes(
    byte for byte in range(256) if byte > 127 or chr(byte).isalnum() or chr(byte) in "_. \t\f"
)
_NO_IMPORTS = ParsedModule()


def find_python(content: bytes) -> ParsedModule:
    content = normalize_source(content)
    # Most of a file follows its last import and is not searched.
    last = content.rfind(b"import")
    if last < 0:
        return _NO_IMPORTS
    code = PythonCode(content)
    names: dict[bytes, None] = {}
    line = position = 0
    tried = -1
    while position <= last and (candidate := _IMPORT.search(content, position)):
        at = candidate.start()
        newline = content.rfind(b"\n", position, at)
        if newline >= 0:
            line = newline + 1
        plain = 0
        # A match can be as long as the file, so it is tried only where it would be used.
        if (
            line != tried
            and not content.endswith(b"\\\n", 0, line)
            and code.is_plain_code(line, at)
        ):
            plain = _add_plain(names, content, line)
        tried = line
        if plain:
            code.skip_to(line + plain)
        else:
            _add_unusual(names, code, line, at)
        position = max(at + 6, code.at)
        line = max(line, content.rfind(b"\n", at, position) + 1)
    return ParsedModule(_texts(names))


def _add_plain(names: dict[bytes, None], content: bytes, line: int) -> int:
    """Add the imports of the usual statements from here on, and return their total length."""
    rows = _PLAIN.findall(content, line)
    joined = b";".join(
        [
            module + b":" + (outside or inside) if module else whole.replace(b",", b";")
            for _, whole, module, outside, inside in rows
        ]
    ).replace(b"\t", b" ")
    if b" as " in joined:
        joined = _RENAMED.sub(b"", joined)
    names.update(dict.fromkeys(joined.translate(None, _BLANKS).split(b";")))
    return sum([len(row[0]) for row in rows])


def _add_unusual(names: dict[bytes, None], code: PythonCode, line: int, at: int) -> None:
    module = _module(code, line, at)
    if module is not None:
        _add_names(names, code, at + 6, module)


def _module(code: PythonCode, line: int, at: int) -> bytes | None:
    """The module after `from`; empty without `from`; None if there is no statement."""
    content = code.content
    if at - line > _MAX_PLAIN_HEAD or content.endswith(b"\\\n", 0, line):
        return _distant_module(code, at)
    if _BLANK.fullmatch(content, line, at):
        return b"" if code.is_plain_code(line, at) else None
    if plain := _FROM.fullmatch(content, line, at):
        return plain[1] if code.is_plain_code(line, at) else None
    return _distant_module(code, at) if _UNUSUAL.search(content, line, at) else None


def _distant_module(code: PythonCode, at: int) -> bytes | None:
    if not code.is_code(at):
        return None
    logical = code.content[code.floor : at].replace(b"\\\n", b" ").rpartition(b"\n")[2]
    code.skip_to(at)
    tail = logical[len(logical.rstrip(_MODULE_BYTES)) :].split()
    if not tail:
        return b""
    joined = b"".join(tail)
    if joined.startswith(b"from") and (tail[0] == b"from" or tail[0].startswith(b"from.")):
        return joined[4:] or None
    return None


def _add_names(names: dict[bytes, None], code: PythonCode, at: int, module: bytes) -> None:
    inside = _IN_PARENTHESES.match(code.content, at) if module else None
    listed = inside or _ON_ITS_LINE.match(code.content, at)
    assert listed is not None
    code.skip_to(listed.end())
    text = inside[1] if inside is not None else listed[0]
    listed_names = _names(text)
    if not module:
        names.update(dict.fromkeys(listed_names.split(b",")))
    elif listed_names:
        names[module + b":" + listed_names] = None


def _names(text: bytes) -> bytes:
    text = _COMMENT.sub(b"", text).replace(b"\\\n", b" ")
    names = [_dotted(piece.split()) for piece in text.split(b",")]
    return b",".join([name for name in names if _NAME.fullmatch(name)])


def _dotted(words: list[bytes]) -> bytes:
    """`a . b as c` is the name `a.b`."""
    end = words.index(b"as") if b"as" in words else len(words)
    return b"".join(words[:end])


def _texts(names: dict[bytes, None]) -> tuple[str, ...]:
    names.pop(b"", None)
    if not names:
        return ()
    text = b"\n".join(names).decode(errors="replace")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return tuple(text.split("\n", MAX_IMPORTS)[:MAX_IMPORTS])
