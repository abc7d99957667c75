"""A small tree of a stranger's XML: bounded in depth and size, without any declaration of entities.

Namespaces are dropped: a pom.xml means the same with and without them.
"""

from xml.parsers import expat

import msgspec

_MAX_ELEMENTS = 100_000
_MAX_LEVELS = 100
_MAX_TEXT = 10_000

_INVALID_TOKEN = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]


class Element(msgspec.Struct):
    """`is_whole` unless the file ends, or stops making sense, within it."""

    name: str
    text: str = ""
    children: list["Element"] = []
    is_whole: bool = False

    def first(self, name: str) -> "Element | None":
        return next((child for child in self.children if child.name == name), None)

    def each(self, *names: str) -> "list[Element]":
        """The elements that a path of names leads to, half-read ones left out at its end."""
        found = [self]
        for name in names:
            found = [child for each in found for child in each.children if child.name == name]
        return [element for element in found if element.is_whole]

    def value(self, name: str) -> str:
        child = self.first(name)
        return child.text.strip() if child is not None and child.is_whole else ""


class _Refused(Exception):
    """What this reader will not follow; the message is for the file's owner."""


def read_xml(content: bytes) -> tuple[Element | None, list[str]]:
    """The outermost element, as far as it could be read, and what is wrong with the rest."""
    tree, problem, code = _parse(content, None)
    if code == _INVALID_TOKEN and not _is_utf8(content):
        # A single bad byte in somebody's name must not hide what stands below it.
        readable = content.decode("utf-8", "replace").encode()
        tree, again, _ = _parse(readable, "utf-8")
        return tree, ["some bytes are not UTF-8", *([again] if again else [])]
    return tree, [problem] if problem else []


def _parse(content: bytes, encoding: str | None) -> tuple[Element | None, str, int]:
    builder = _Builder()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.refuse_declarations
    parser.EntityDeclHandler = builder.refuse_declarations
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        return builder.root, f"not well-formed XML ({error}); read up to there", error.code
    except (_Refused, ValueError, LookupError) as error:
        return builder.root, str(error), 0
    return builder.root, "", 0


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Builder:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._elements = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > _MAX_ELEMENTS:
            raise _Refused(f"more than {_MAX_ELEMENTS} XML elements; read up to there")
        if len(self._open) >= _MAX_LEVELS:
            raise _Refused(f"XML nested more than {_MAX_LEVELS} levels deep; read up to there")
        element = Element(name.rpartition(":")[2])
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _name: str) -> None:
        self._open.pop().is_whole = True

    def characters(self, text: str) -> None:
        element = self._open[-1]
        if not element.children and len(element.text) < _MAX_TEXT:
            element.text += text[:_MAX_TEXT]

    def refuse_declarations(self, *_declaration: object) -> None:
        raise _Refused("XML with a DOCTYPE or entities is not read: remove the declaration")
