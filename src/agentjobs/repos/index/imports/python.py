"""Imports of a Python file, the same that its syntax tree would show, without making the tree.

`import` is a keyword: wherever the word stands outside strings and comments, a statement is.
A name reads `a.b`; `from ..a import b, c` reads `..a:b,c`.
"""

import re
import unicodedata

from agentjobs.repos.index.imports.limits import MAX_IMPORTS
from agentjobs.repos.index.imports.python_code import PythonCode
from agentjobs.repos.index.imports.python_text import plain_text
from agentjobs.repos.index.model import ModuleFacts

_IMPORT = re.compile(rb"import(?<![\w\x80-\xff]import)(?=[ \t\f]*[(*\\]|[ \t\f]+[\w\x80-\xff])")
# A statement in one of the forms that nearly all have, on lines of its own. Groups: what is
# imported as a whole; else the module, and what of it, without or within parentheses.
_AS = rb"(?:[ \t]++as[ \t]++\w++)?+"
_NAMES = rb"\w++" + _AS + rb"(?:,[ \t]*+\w++" + _AS + rb")*+"
_NAMES_INSIDE = rb"\s*+\w++" + _AS + rb"(?:,\s*+\w++" + _AS + rb")*+"
_PLAIN = (
    rb"[ \t]*+(?:import[ \t]++([\w.]++" + _AS + rb"(?:,[ \t]*+[\w.]++" + _AS + rb")*+)"
    rb"|from[ \t]++([\w.]++)[ \t]++import[ \t]*+"
    rb"(?:((?<=[ \t])" + _NAMES + rb"|\*)|\((" + _NAMES_INSIDE + rb")\s*+,?\s*+\)))"
    rb"[ \t]*+(?:#[^\n]*+)?+\n"
)
_PLAIN_STATEMENT = re.compile(b"^" + _PLAIN, re.MULTILINE)
# Many of them, with comments and empty lines between; without groups, which possessive repeats
# do not get along with.
_PLAIN_RUN = re.compile(
    rb"(?:" + re.sub(rb"(?<!\\)\((?!\?)", b"(?:", _PLAIN) + rb"|[ \t]*+(?:#[^\n]*+)?+\n)++"
)
_RENAMED = re.compile(rb"\sas\s+\w+")
_FROM = re.compile(rb"[ \t\f]*from(?:[ \t]+|(?=\.))([\w.]+)(?:[ \t]+|(?<=\.))")
_BLANK = re.compile(rb"[ \t\f]*")
# What must be there where a statement begins within a line, or `from` is unusual.
_ODD = re.compile(rb"[:;\\]|from")
_LONGEST_PLAIN_HEAD = 400
_ON_ITS_LINE = re.compile(rb"(?:[^\n;#\\()]++|\\\n)*+")
# No quotes: after one, a `#` may begin no comment.
_IN_PARENTHESES = re.compile(rb"(?:[ \t\f]|\\\n)*+\(((?:[^()#\"']++|#[^\n]*+)*+)\)")
_COMMENT = re.compile(rb"#[^\n]*+")
_NAME = re.compile(rb"[\w.*\x80-\xff]+")
# Whatever may stand between `from` and `import`.
_MODULE_BYTES = bytes(
    byte for byte in range(256) if byte > 127 or chr(byte).isalnum() or chr(byte) in "_. \t\f"
)


def find_python(content: bytes) -> ModuleFacts:
    content = plain_text(content)
    code = PythonCode(content)
    found: dict[bytes, None] = {}
    line = position = 0
    tried = -1
    while candidate := _IMPORT.search(content, position):
        at = candidate.start()
        newline = content.rfind(b"\n", position, at)
        if newline >= 0:
            line = newline + 1
        run = None
        # A run can be as long as the file: it is looked for only where it would be taken.
        if line != tried and not content.endswith(b"\\\n", 0, line) and code.holds_plain(line, at):
            run = _PLAIN_RUN.match(content, line)
        tried = line
        if run is None:
            _add_unusual(found, code, line, at)
        else:
            _add_plain(found, content, line, run.end())
            code.skip_to(run.end())
        position = max(at + 6, code.at)
        line = max(line, content.rfind(b"\n", at, position) + 1)
    return ModuleFacts(_texts(found))


def _add_plain(found: dict[bytes, None], content: bytes, begin: int, end: int) -> None:
    for whole, module, outside, inside in _PLAIN_STATEMENT.findall(content, begin, end):
        names = whole or outside or inside
        if b"as" in names:
            names = _RENAMED.sub(b"", names)
        if module:
            found[module + b":" + b"".join(names.split())] = None
        elif b"," not in names:
            found[names] = None
        else:
            found.update(dict.fromkeys(b"".join(names.split()).split(b",")))


def _add_unusual(found: dict[bytes, None], code: PythonCode, line: int, at: int) -> None:
    module = _module(code, line, at)
    if module is not None:
        _add_names(found, code, at + 6, module)


def _module(code: PythonCode, line: int, at: int) -> bytes | None:
    """What stands after `from`; empty without `from`; None where no statement is."""
    content = code.content
    if at - line > _LONGEST_PLAIN_HEAD or content.endswith(b"\\\n", 0, line):
        return _distant_module(code, at)
    if _BLANK.fullmatch(content, line, at):
        return b"" if code.holds_plain(line, at) else None
    if plain := _FROM.fullmatch(content, line, at):
        return plain[1] if code.holds_plain(line, at) else None
    return _distant_module(code, at) if _ODD.search(content, line, at) else None


def _distant_module(code: PythonCode, at: int) -> bytes | None:
    if not code.holds(at):
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


def _add_names(found: dict[bytes, None], code: PythonCode, at: int, module: bytes) -> None:
    inside = _IN_PARENTHESES.match(code.content, at) if module else None
    listed = inside or _ON_ITS_LINE.match(code.content, at)
    assert listed is not None
    code.skip_to(listed.end())
    text = inside[1] if inside is not None else listed[0]
    names = _names(text)
    if not module:
        found.update(dict.fromkeys(names.split(b",")))
    elif names:
        found[module + b":" + names] = None


def _names(text: bytes) -> bytes:
    text = _COMMENT.sub(b"", text).replace(b"\\\n", b" ")
    names = [_dotted(piece.split()) for piece in text.split(b",")]
    return b",".join([name for name in names if _NAME.fullmatch(name)])


def _dotted(words: list[bytes]) -> bytes:
    """`a . b as c` is the name `a.b`."""
    end = words.index(b"as") if b"as" in words else len(words)
    return b"".join(words[:end])


def _texts(found: dict[bytes, None]) -> tuple[str, ...]:
    found.pop(b"", None)
    if not found:
        return ()
    text = b"\n".join(found).decode(errors="replace")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return tuple(text.split("\n", MAX_IMPORTS)[:MAX_IMPORTS])
