"""Reads the YAML of lock files: nested mappings with scalars, in block or flow style.

Lists are left out, because no reader needs them. Scalars stay strings (1.10 is a version). Anchors,
aliases and tags, which can expand in memory, are rejected.
"""

import re
from collections.abc import Iterator
from typing import Any

from agentjobs_dependencies.formats.text import MAX_DEPTH, UnreadableManifest

# Without hashes, larger than any lock file; takes seconds.
MAX_CHARACTERS = 4 << 20
# Size of one collection in flow style; tools write short ones only.
_MAX_FLOW = 1 << 20

_QUOTED = r"""'(?>(?:[^']|'')*)'|"(?>(?:[^"\\]|\\.)*)\""""
_LONG_KEY = re.compile(r"^([ ]*+)\?[ ]([^\n]*+)\n[ ]*+:(?=\s)", re.MULTILINE)
_QUOTED_KEY = re.compile(rf"({_QUOTED})[ ]*+:(?:[ ]++|$)")
_FLOW_KEY = re.compile(r".*[\]}][ ]*+:(?:\s|$)")
_BLOCK = re.compile(r"[|>][-+0-9]*+")
_FLOW_TOKEN = re.compile(
    rf"\s*+(?:([{{}}\[\],])|(:)(?=[\s,\]}}]|$)|({_QUOTED}|(?>(?:[^,:{{}}\[\]]|:(?=\S))+)))"
)
_ESCAPE = re.compile(r"\\(.)")

_Mapping = dict[str, Any]


def read_yaml(text: str) -> _Mapping:
    """The last document: pnpm writes one about itself before the project's."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableManifest(f"larger than {MAX_CHARACTERS >> 20} MiB")
    text = text.replace("\r\n", "\n")
    reader = _Reader()
    for line in _logical_lines(_LONG_KEY.sub(r"\1\2:", text) if "? " in text else text):
        reader.add(line)
    return reader.document


def _logical_lines(text: str) -> Iterator[str]:
    """A collection in flow style may have several lines."""
    parts: list[str] = []
    depth = 0
    for line in text.split("\n"):
        if parts or line.rstrip().endswith(("{", "[", ",")):
            parts.append(line)
            depth += line.count("{") + line.count("[") - line.count("}") - line.count("]")
            if depth > 0:
                continue
        yield " ".join(parts) if parts else line
        parts, depth = [], 0
    yield " ".join(parts)


class _Reader:
    document: _Mapping

    def __init__(self) -> None:
        self._start_document()

    def _start_document(self) -> None:
        self.document = {}
        # Open mappings, outermost first, with the indentation of their keys.
        self._open = [(-1, self.document)]
        # Deeper lines belong to a scalar of several lines.
        self._scalar_indent: int | None = None

    def add(self, line: str) -> None:
        rest = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if not rest or (self._scalar_indent is not None and indent > self._scalar_indent):
            return
        self._scalar_indent = None
        if rest == "---":
            self._start_document()
        elif rest[0] in "{[":
            if _FLOW_KEY.match(rest):
                raise UnreadableManifest("a key that is a list or a mapping")
            # Prettier writes a long value below its key.
            value = _read_flow(rest)
            self._open[-1][1].update(value if isinstance(value, dict) else {})
        elif rest[0] != "#" and rest != "-" and not rest.startswith("- "):
            self._add_entry(indent, rest)

    def _add_entry(self, indent: int, rest: str) -> None:
        key, value = _split_entry(rest)
        while self._open[-1][0] >= indent:
            self._open.pop()
        mapping = self._open[-1][1]
        if not value or value[0] == "#":
            inner: _Mapping = {}
            mapping[key] = inner
            self._open.append((indent, inner))
            if len(self._open) > MAX_DEPTH:
                raise UnreadableManifest(f"nested more than {MAX_DEPTH} deep")
        elif _BLOCK.fullmatch(value):
            self._scalar_indent = indent
        else:
            mapping[key] = _read_flow(value) if value[0] in "{[" else _read_scalar(value)


def _split_entry(line: str) -> tuple[str, str]:
    if match := _QUOTED_KEY.match(line):
        return _read_scalar(match[1]), line[match.end() :]
    key, separator, value = line.partition(": ")
    if line[0] in "'\"" or not (separator or line.endswith(":")):
        raise UnreadableManifest(f"unsupported YAML: {line[:60]!r}")
    return _read_scalar(key if separator else line[:-1]), value.strip()


def _read_scalar(text: str) -> str:
    first = text[:1]
    if first in ("&", "*", "!"):
        raise UnreadableManifest("YAML anchors, aliases and tags are not supported")
    if first == "'":
        return text[1 : text.rfind("'")].replace("''", "'")
    if first == '"':
        return _ESCAPE.sub(r"\1", text[1 : text.rfind('"')])
    return text.partition(" #")[0].rstrip()


def _read_flow(text: str) -> Any:
    """A mapping or list that is complete."""
    if len(text) > _MAX_FLOW:
        raise UnreadableManifest(f"a collection larger than {_MAX_FLOW >> 20} MiB")
    result: list[Any] = []
    stack: list[_Mapping | list[Any]] = [result]
    key: str | None = None
    for mark, colon, scalar in _FLOW_TOKEN.findall(text):
        target = stack[-1]
        if mark in ("{", "["):
            inner: _Mapping | list[Any] = {} if mark == "{" else []
            _put(target, key, inner)
            stack.append(inner)
            if len(stack) > MAX_DEPTH:
                raise UnreadableManifest(f"nested more than {MAX_DEPTH} deep")
        elif mark in ("}", "]") and len(stack) > 1:
            stack.pop()
        elif scalar.strip():
            if isinstance(target, dict) and key is None:
                key = _read_scalar(scalar.strip())
                continue
            _put(target, key, _read_scalar(scalar.strip()))
        if not colon:
            key = None
    return result[0] if result else {}


def _put(target: _Mapping | list[Any], key: str | None, value: Any) -> None:
    if isinstance(target, list):
        target.append(value)
    else:
        target[key or ""] = value
