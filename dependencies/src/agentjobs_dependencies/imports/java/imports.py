"""Imports of a Java file, which follow its package declaration.

`a.b.C`, `a.b.*`, and `static a.b.C.d` for a member.
"""

import re

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule

_SPACE = rb"(?>(?:[\s;]++|//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)\*/)*)"
_GAP = rb"(?>(?:\s++|//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)\*/)*)"
_WORD = rb"[\w$\x80-\xff]++"
_NAME = rb"(" + _WORD + rb"(?:" + _GAP + rb"\." + _GAP + rb"(?:" + _WORD + rb"|\*))*)"
_HEAD = re.compile(_SPACE)
# Annotations of a package, with arguments that contain no parentheses.
_ARGUMENTS = rb"(?>(?:\((?>(?:[^()\"]++|\"(?>(?:[^\"\\\n]++|\\.)*)\")*)\))?)"
_ANNOTATION = re.compile(rb"@(?!interface\b)" + _NAME + _GAP + _ARGUMENTS + _SPACE)
_PACKAGE = re.compile(rb"package\b" + _GAP + _NAME + _GAP + rb";" + _SPACE)
_KIND = rb"(?:(static)\s" + _GAP + rb"|module\s" + _GAP + rb")?"
_IMPORT = re.compile(rb"import\b" + _GAP + _KIND + _NAME + _GAP + rb";" + _SPACE)
_NOT_NAME = re.compile(rb"//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)\*/|\s++")


def find_java(content: bytes) -> ParsedModule:
    head = _HEAD.match(content, 3 if content.startswith(b"\xef\xbb\xbf") else 0)
    at = head.end() if head is not None else 0
    while annotation := _ANNOTATION.match(content, at):
        at = annotation.end()
    package = _PACKAGE.match(content, at)
    if package is not None:
        at = package.end()
    imports: dict[str, None] = {}
    while declaration := _IMPORT.match(content, at):
        at = declaration.end()
        name = _text(declaration[2])
        imports[f"static {name}" if declaration[1] else name] = None
    return ParsedModule(tuple(imports)[:MAX_IMPORTS])


def _text(name: bytes) -> str:
    return _NOT_NAME.sub(b"", name).decode(errors="replace")
