"""Modules that a Rust file declares and paths that it uses, with groups expanded.

`mod:a` is a declaration (`mod:a=x.rs` with a path attribute), `::a` a crate, anything else a path.
Paths inside an inline module are relative to the file. An inline module ends where the indentation
of rustfmt says so.
"""

import re
from typing import NamedTuple

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule
from agentjobs_dependencies.imports.rust.code_spans import RustCode
from agentjobs_dependencies.imports.rust.paths import expand, relative_to_file

# Lookbehinds follow the word, so that the search starts with a literal.
_KEYWORDS = (
    re.compile(rb"use(?<!\wuse)(?=\s++(?:\{|::|(?>(?:r#)?)\w++\s*+(?:::|;|as\s)))"),
    re.compile(rb"mod(?<!\wmod)(?=\s++(?>(?:r#)?)\w++\s*+[;{])"),
    re.compile(rb"extern(?<!\wextern)(?=\s++crate\s)"),
)
_USE = re.compile(rb"((?>(?:[\w:{},*\s#]++|//[^\n]*+|/\*[^*]*+\*/)*))")
_MODULE = re.compile(rb"mod\s+(?:r#)?(\w+)\s*([;{])")
_CRATE = re.compile(rb"extern\s+crate\s+(?:r#)?(\w+)")
_PATH = re.compile(
    rb"#\[path\s*=\s*\"([^\"\\\n]{1,200})\"\s*\]\s*(?:#\[[^\]\n]{0,200}\]\s*)*"
    rb"(?:pub(?:\([^)\n]{0,80}\))?\s+)?"
)
_PATH_BYTES = 400
_ONE_LINE_BYTES = 400
_MAX_DEPTH = 16


class _Inline(NamedTuple):
    name: str
    end: int


def find_rust(content: bytes) -> ParsedModule:
    positions = sorted([match.start() for word in _KEYWORDS for match in word.finditer(content)])
    if not positions:
        return ParsedModule()
    search = _Search(content)
    for position in positions:
        if search.code.is_code(position):
            search.read(position)
            if len(search.imports) > MAX_IMPORTS:
                break
    return ParsedModule(tuple(search.imports)[:MAX_IMPORTS])


class _Search:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.code = RustCode(content)
        self.imports: dict[str, None] = {}
        self._open: list[_Inline] = []
        self._closing: dict[bytes, int] = {}

    def read(self, position: int) -> None:
        while self._open and self._open[-1].end <= position:
            self._open.pop()
        if self.content.startswith(b"use", position):
            self._read_use(position)
        elif module := _MODULE.match(self.content, position):
            self._read_module(position, module)
        elif crate := _CRATE.match(self.content, position):
            self.imports["::" + crate[1].decode()] = None

    def _read_use(self, position: int) -> None:
        content = self.content
        clause = _USE.match(content, position + 3)
        assert clause is not None
        if not content.startswith(b";", clause.end()):
            # An incomplete statement may contain the keyword of the next one.
            self.code.skip_to(max(position, content.rfind(b"use", position + 3, clause.end())))
            return
        self.code.skip_to(clause.end())
        inline = [module.name for module in self._open]
        for path in expand(clause[1]):
            self.imports[relative_to_file(path, inline)] = None

    def _read_module(self, position: int, module: re.Match[bytes]) -> None:
        name = module[1].decode()
        if module[2] == b"{":
            if len(self._open) < _MAX_DEPTH:
                self._open.append(_Inline(name, self._find_end(position, module.end())))
            return
        path = "::".join([*(outer.name for outer in self._open), name])
        file = self._path_before(position)
        self.imports[f"mod:{path}={file}" if file else f"mod:{path}"] = None

    def _path_before(self, position: int) -> str:
        """The file named in a `path` attribute before a declaration."""
        begin = self.content.rfind(b"#[path", max(0, position - _PATH_BYTES), position)
        attribute = _PATH.fullmatch(self.content, begin, position) if begin >= 0 else None
        return attribute[1].decode(errors="replace") if attribute is not None else ""

    def _find_end(self, position: int, begin: int) -> int:
        """The position of the closing brace with the same indentation as the opening line."""
        content = self.content
        rest = content[begin : begin + _ONE_LINE_BYTES].partition(b"\n")[0]
        if rest.count(b"}") > rest.count(b"{"):
            return begin + len(rest)
        line = content.rfind(b"\n", max(0, position - _ONE_LINE_BYTES), position) + 1
        head = content[line:position]
        indent = head[: len(head) - len(head.lstrip(b" \t"))]
        known = self._closing.get(indent, -1)
        if known < begin and len(self._closing) < _MAX_DEPTH:
            known = content.find(b"\n" + indent + b"}", begin)
            self._closing[indent] = known = known if known >= 0 else len(content)
        return max(known, begin)
