"""Imports of a Go file, which follow its package clause."""

import re

from agentjobs_dependencies.imports.model import MAX_IMPORTS, ParsedModule

_SPACE = rb"(?>(?:[\s;]++|//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)\*/)*)"
_SKIP = re.compile(_SPACE)
_PACKAGE = re.compile(rb"package\b" + _SPACE + rb"[\w\x80-\xff]+")
_IMPORT = re.compile(rb"import(?![\w\x80-\xff])" + _SPACE + rb"(\()?")
_PATH = re.compile(
    rb"(?:(?:[\w\x80-\xff]++|\.)" + _SPACE + rb")?(?:\"([^\"\\\n]*)\"|`([^`\n]*)`)" + _SPACE
)


def find_go(content: bytes) -> ParsedModule:
    at = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    package = _PACKAGE.match(content, _after_space(content, at))
    if package is None:
        return ParsedModule()
    paths: dict[bytes, None] = {}
    at = _after_space(content, package.end())
    while declaration := _IMPORT.match(content, at):
        at = _after_space(content, declaration.end())
        while path := _PATH.match(content, at):
            paths[path[1] or path[2] or b""] = None
            at = path.end()
            if not declaration[1]:
                break
        if declaration[1]:
            if not content.startswith(b")", at):
                break
            at = _after_space(content, at + 1)
    paths.pop(b"", None)
    names = [path.decode(errors="replace") for path in paths]
    return ParsedModule(tuple(names[:MAX_IMPORTS]))


def _after_space(content: bytes, at: int) -> int:
    space = _SKIP.match(content, at)
    return space.end() if space is not None else at
