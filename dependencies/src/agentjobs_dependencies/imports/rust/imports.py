"""Modules that a Rust file declares and paths that it uses, with groups expanded.

`mod:a` is a declaration (`mod:a=x.rs` with a path attribute), `::a` a crate, anything else a path.
"""

import re
from collections.abc import Iterator

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule

# How deep comments inside comments are read.
_COMMENT_DEPTH = 4


def _build_comment() -> str:
    nested = r"/(?!\*)"
    for _ in range(_COMMENT_DEPTH):
        nested = rf"/(?!\*)|/\*(?>(?:[^*/]++|\*(?!/)|{nested})*)(?:\*/)?"
    return rf"//[^\n]*+|{nested}"


# A string that is not closed ends with the file.
_STRING = (
    r"\"(?>(?:[^\"\\]++|\\.)*)\"?"
    r"|r(?:(?<=\Wr)|(?<=\W[bc]r))(?P<mark>#*+)\"(?:.*?\"(?P=mark)|.*)"
)
_CHARACTER = r"'(?:\\[^\n][^'\n]{0,10}+|[^\\'\n\x80-\xff]|[\x80-\xff]{2,4}+)'"
# Lookbehinds follow the word, so that the search starts with a literal. A path ends before the
# next `use`, so that no text is read twice.
_USE = r"use(?<!\wuse)(?P<use>(?=[\s{])(?>(?:(?!use\b)\w++|[:{},*\s#]++|//[^\n]*+|/\*[^*]*+\*/)*));"
_MODULE = r"mod(?<!\wmod)\s++(?:r#)?(?P<module>\w++)\s*+;"
_CRATE = r"extern(?<!\wextern)\s++crate\s++(?:r#)?(?P<crate>\w++)"
_PATH = (
    r"#\[path\s*+=\s*+\"(?P<file>[^\"\\\n]{1,200})\"\s*+\]\s*+(?:#\[[^\]\n]{0,200}\]\s*+){0,8}"
    r"(?:pub(?:\([^)\n]{0,80}\))?\s++)?mod\s++(?:r#)?(?P<placed>\w++)\s*+;"
)
_TOKEN = re.compile(
    f"{_build_comment()}|{_STRING}|{_CHARACTER}|{_USE}|{_MODULE}|{_CRATE}|{_PATH}".encode(
        "latin-1"
    ),
    re.DOTALL,
)
_SIMPLE_COMMENT = re.compile(rb"//[^\n]*+|/\*[^*]*+\*/")
_RENAMED = re.compile(rb"\sas\s+\w+")
_ITEM = re.compile(r"[{},]|[^{},]+")
_INDENTED = re.compile(rb"\n[ \t]+(?:pub(?:\([^)\n]{0,80}\))?\s+)?\Z")
_MAX_HEAD_BYTES = 200
# Longer paths resolve to the same files, and nested groups must not multiply a long one.
_MAX_PREFIX = 300


def find_rust(content: bytes) -> ParsedModule:
    names: dict[str, None] = {}
    for token in _TOKEN.finditer(content):
        if token["use"] is not None:
            start = token.start()
            is_indented = _INDENTED.search(content, max(0, start - _MAX_HEAD_BYTES), start)
            paths = _expand(token["use"])
            names |= dict.fromkeys(map(_leave_inline, paths) if is_indented else paths)
        elif name := token["module"]:
            names[f"mod:{name.decode()}"] = None
        elif name := token["crate"]:
            names[f"::{name.decode()}"] = None
        elif name := token["placed"]:
            names[f"mod:{name.decode()}={token['file'].decode(errors='replace')}"] = None
        if len(names) > MAX_IMPORTS:
            break
    return ParsedModule(tuple(names)[:MAX_IMPORTS])


def _leave_inline(path: str) -> str:
    """An indented `use` is in an inline module, whose parent is the file: usually its tests."""
    if path.startswith("super::super::"):
        return path.removeprefix("super::")
    return path.replace("super::", "self::", 1) if path.startswith("super::") else path


def _expand(tree: bytes) -> Iterator[str]:
    """`a::{b, c::{self, d as e}}` is `a::b`, `a::c`, `a::c::d`."""
    plain = _RENAMED.sub(b"", _SIMPLE_COMMENT.sub(b"", tree))
    text = b"".join(plain.split()).replace(b"r#", b"").decode(errors="replace")
    prefixes, last = [""], ""
    for item in _ITEM.findall(f"{text},"):
        if item == "{":
            prefixes.append((prefixes[-1] + last)[:_MAX_PREFIX])
            last = ""
        elif item not in "},":
            last = item
        else:
            if last:
                yield (prefixes[-1] + last).removesuffix("::self")
            last = ""
            if item == "}" and len(prefixes) > 1:
                prefixes.pop()
