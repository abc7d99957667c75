"""Parses untrusted XML into a tree of limited depth and size; rejects entity declarations.

Drops namespaces, because a pom.xml means the same with and without them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

_MAX_ELEMENTS = 100_000
_MAX_LEVELS = 100
_MAX_TEXT = 10_000

_INVALID_TOKEN = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]


@dataclass(slots=True)
class Element:
    """`is_complete` is False if the file ends or becomes invalid inside the element. `start` is the
    position of its tag in the bytes, and `span` that of its content."""

    name: str
    start: int = 0
    span: tuple[int, int] = (0, 0)
    text: str = ""
    children: list["Element"] = field(default_factory=list)
    is_complete: bool = False

    def first(self, name: str) -> "Element | None":
        return next((child for child in self.children if child.name == name), None)

    def each(self, *names: str) -> "list[Element]":
        """The complete elements at a path of names."""
        elements = [self]
        for name in names:
            elements = [
                child for parent in elements for child in parent.children if child.name == name
            ]
        return [element for element in elements if element.is_complete]

    def find_all(self, name: str) -> "Iterator[Element]":
        """The complete elements with this name at any depth, in the order of the file."""
        return (element for element in self.walk() if element.name == name and element.is_complete)

    def walk(self) -> "Iterator[Element]":
        yield self
        for child in self.children:
            yield from child.walk()

    def value(self, name: str) -> str:
        child = self.first(name)
        return child.text.strip() if child is not None and child.is_complete else ""


class _UnsupportedXml(Exception):
    """The document exceeds a limit or uses unsupported features; the message says which."""


def read_xml(content: bytes, encoding: str | None = None) -> tuple[Element | None, list[str]]:
    """The root element, as far as it could be read, and warnings."""
    tree, problem, code = _parse(content, encoding)
    if code == _INVALID_TOKEN and encoding is None and not _is_utf8(content):
        # A single invalid byte must not make the rest of the file unreadable.
        readable = content.decode("utf-8", "replace").encode()
        tree, second_problem, _ = _parse(readable, "utf-8")
        return tree, ["some bytes are not UTF-8", *([second_problem] if second_problem else [])]
    return tree, [problem] if problem else []


def _parse(content: bytes, encoding: str | None) -> tuple[Element | None, str, int]:
    parser = expat.ParserCreate(encoding)
    builder = _Builder(content, parser)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.reject_declarations
    parser.EntityDeclHandler = builder.reject_declarations
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        return builder.root, f"not well-formed XML ({error}); read up to there", error.code
    except (_UnsupportedXml, ValueError, LookupError) as error:
        return builder.root, str(error), 0
    return builder.root, "", 0


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Builder:
    def __init__(self, content: bytes, parser: expat.XMLParserType) -> None:
        self._content = content
        self._parser = parser
        self.root: Element | None = None
        self._open: list[Element] = []
        self._elements = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > _MAX_ELEMENTS:
            raise _UnsupportedXml(f"more than {_MAX_ELEMENTS} XML elements; read up to there")
        if len(self._open) >= _MAX_LEVELS:
            raise _UnsupportedXml(
                f"XML nested more than {_MAX_LEVELS} levels deep; read up to there"
            )
        element = Element(name.rpartition(":")[2], self._parser.CurrentByteIndex)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _name: str) -> None:
        element, end = self._open.pop(), self._parser.CurrentByteIndex
        element.is_complete = True
        # An element without content may have only one tag.
        element.span = (min(self._content.find(b">", element.start) + 1, end), end)

    def characters(self, text: str) -> None:
        element = self._open[-1]
        if not element.children and len(element.text) < _MAX_TEXT:
            element.text += text[:_MAX_TEXT]

    def reject_declarations(self, *_declaration: object) -> None:
        raise _UnsupportedXml(
            "XML with a DOCTYPE or entities is not supported: remove the declaration"
        )
