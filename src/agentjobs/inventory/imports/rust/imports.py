"""Modules a Rust file declares and paths it uses, groups taken apart.

`mod:a` is a declaration (`mod:a=x.rs` with a path of its own), `::a` a crate, all else a path.
Paths within a module written in the file itself are given as seen from the file; where such a
module ends is told by indentation, as the language's own formatter lays it out.
"""

import re
from typing import NamedTuple

from agentjobs.inventory.imports.limits import MAX_IMPORTS
from agentjobs.inventory.imports.rust.code_spans import RustCode
from agentjobs.inventory.imports.rust.paths import expand, seen_from_file
from agentjobs.inventory.model import ModuleFacts

# Looking back comes after the word, so that the search is for the plain word.
_WORDS = (
    re.compile(rb"use(?<!\wuse)(?=\s++(?:\{|::|(?:r#)?+\w++\s*+(?:::|;|as\s)))"),
    re.compile(rb"mod(?<!\wmod)(?=\s++(?:r#)?+\w++\s*+[;{])"),
    re.compile(rb"extern(?<!\wextern)(?=\s++crate\s)"),
)
_USE = re.compile(rb"((?:[\w:{},*\s#]++|//[^\n]*+|/\*[^*]*+\*/)*+)")
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


def find_rust(content: bytes) -> ModuleFacts:
    places = sorted([match.start() for word in _WORDS for match in word.finditer(content)])
    if not places:
        return ModuleFacts()
    search = _Search(content)
    for place in places:
        if search.code.holds(place):
            search.read(place)
            if len(search.found) > MAX_IMPORTS:
                break
    return ModuleFacts(tuple(search.found)[:MAX_IMPORTS])


class _Search:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.code = RustCode(content)
        self.found: dict[str, None] = {}
        self._open: list[_Inline] = []
        self._closing: dict[bytes, int] = {}

    def read(self, place: int) -> None:
        while self._open and self._open[-1].end <= place:
            self._open.pop()
        if self.content.startswith(b"use", place):
            self._read_use(place)
        elif module := _MODULE.match(self.content, place):
            self._read_module(place, module)
        elif crate := _CRATE.match(self.content, place):
            self.found["::" + crate[1].decode()] = None

    def _read_use(self, place: int) -> None:
        content = self.content
        clause = _USE.match(content, place + 3)
        assert clause is not None
        if not content.startswith(b";", clause.end()):
            # Words without end may hold the one that begins the next statement.
            self.code.skip_to(max(place, content.rfind(b"use", place + 3, clause.end())))
            return
        self.code.skip_to(clause.end())
        inline = [module.name for module in self._open]
        for path in expand(clause[1]):
            self.found[seen_from_file(path, inline)] = None

    def _read_module(self, place: int, module: re.Match[bytes]) -> None:
        name = module[1].decode()
        if module[2] == b"{":
            if len(self._open) < _MAX_DEPTH:
                self._open.append(_Inline(name, self._end_of(place, module.end())))
            return
        path = "::".join([*(outer.name for outer in self._open), name])
        file = self._path_before(place)
        self.found[f"mod:{path}={file}" if file else f"mod:{path}"] = None

    def _path_before(self, place: int) -> str:
        """What an attribute before a declaration says its file is."""
        begin = self.content.rfind(b"#[path", max(0, place - _PATH_BYTES), place)
        said = _PATH.fullmatch(self.content, begin, place) if begin >= 0 else None
        return said[1].decode(errors="replace") if said is not None else ""

    def _end_of(self, place: int, begin: int) -> int:
        """Where a brace stands as far to the right as the line that opened it."""
        content = self.content
        rest = content[begin : begin + _ONE_LINE_BYTES].partition(b"\n")[0]
        if rest.count(b"}") > rest.count(b"{"):
            return begin + len(rest)
        line = content.rfind(b"\n", max(0, place - _ONE_LINE_BYTES), place) + 1
        head = content[line:place]
        indent = head[: len(head) - len(head.lstrip(b" \t"))]
        known = self._closing.get(indent, -1)
        if known < begin and len(self._closing) < _MAX_DEPTH:
            known = content.find(b"\n" + indent + b"}", begin)
            self._closing[indent] = known = known if known >= 0 else len(content)
        return max(known, begin)
