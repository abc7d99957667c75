"""Raises requirements in pyproject.toml that exclude a version, and changes no other byte.

Knows the tables of PEP 621, dependency groups, uv, Poetry, and those of a Pipfile.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.tree import read_toml
from agentjobs_dependencies.versions.pypi import allows, normalize_name, raise_specifier

_TABLE = re.compile(r"^[ \t]*\[\[?[ \t]*([^\]\n]+?)[ \t]*\]\]?", re.MULTILINE)
_STRINGS = ("project", "project.optional-dependencies", "dependency-groups", "tool.uv")
_ENTRIES = re.compile(
    r"(?:tool\.poetry(?:\.group\.[^.]+)?\.(?:dev-)?dependencies|(?:dev-)?packages)"
    r"(?:\.(?P<name>[^.]+))?"
)
_STRING = re.compile(
    # Skips comments and other strings, which may contain text that looks like a requirement.
    r"#[^\n]*|(?P<quote>[\"'])(?P<start>\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]\n\"']*\])?\s*\(?)"
    r"(?P<specifier>[=<>~!][^;\n\"')]*?)\s*\)?\s*(?:;[^\n]*?)?(?P=quote)"
    r"|\"[^\"\n]*\"|'[^'\n]*'"
)
_ENTRY = re.compile(
    r"^[ \t]*[\"']?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)[\"']?[ \t]*=[ \t]*"
    r"(?:\{[^\n]*?\bversion[ \t]*=[ \t]*)?[\"'](?P<specifier>[^\"'\n]+)[\"']",
    re.MULTILINE,
)
_VERSION_ENTRY = re.compile(
    r"^[ \t]*(?P<name>version)[ \t]*=[ \t]*[\"'](?P<specifier>[^\"'\n]+)[\"']", re.MULTILINE
)
_OVERRIDES = re.compile(r"^[ \t]*override-dependencies[ \t]*=[ \t]*\[", re.MULTILINE)


def read_pyproject(text: str) -> dict[str, Any]:
    return read_toml(text, "pyproject.toml")


def allow_version(text: str, package: str, version: str) -> str:
    """Raise each requirement of the package that excludes the version."""

    def update(match: re.Match[str], name: str = "") -> str:
        specifier = match["specifier"]
        if specifier is None:
            return match[0]
        required_name = normalize_name(name or match["name"])
        if required_name != normalize_name(package) or allows(specifier, version):
            return match[0]
        new = raise_specifier(specifier, version)
        if new is None:
            raise CannotFix(f"the requirement `{package} {specifier}` excludes {version}")
        start, end = (position - match.start() for position in match.span("specifier"))
        return match[0][:start] + new + match[0][end:]

    edited = _update_tables(text, update)
    read_pyproject(edited)
    return edited


def add_override(text: str, requirement: str) -> str:
    """Add an entry to uv's `override-dependencies`."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    for start, end, table in _tables(text):
        if table != "tool.uv":
            continue
        if existing := _OVERRIDES.search(text, start, end):
            edited = f'{text[: existing.end()]}"{requirement}", {text[existing.end() :]}'
        else:
            added = f'{line_end}override-dependencies = ["{requirement}"]'
            edited = text[:start] + added + text[start:]
        break
    else:
        before = "" if text.endswith("\n") else line_end
        lines = ("", "[tool.uv]", f'override-dependencies = ["{requirement}"]', "")
        edited = text + before + line_end.join(lines)
    read_pyproject(edited)
    return edited


def _update_tables(text: str, update: Callable[..., str]) -> str:
    tables = list(_tables(text))
    pieces = [text[: tables[0][0]] if tables else text]
    for start, end, table in tables:
        content = text[start:end]
        entries = _ENTRIES.fullmatch(table)
        if table in _STRINGS:
            content = _STRING.sub(update, content)
        elif entries and entries["name"]:
            name = entries["name"].strip("\"'")
            content = _VERSION_ENTRY.sub(partial(update, name=name), content)
        elif entries:
            content = _ENTRY.sub(update, content)
        pieces.append(content)
        following = _TABLE.match(text, end)
        pieces.append(following[0] if following else "")
    return "".join(pieces)


def _tables(text: str) -> list[tuple[int, int, str]]:
    """The start and end of each table's content, and its name. Lines of arrays that start with a
    bracket look like tables too, but have no relevant name."""
    match = list(_TABLE.finditer(text))
    ends = [following.start() for following in match[1:]] + [len(text)]
    names = [table[1].replace(" ", "") for table in match]
    return [(match[position].end(), ends[position], name) for position, name in enumerate(names)]
