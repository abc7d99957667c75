"""Requirements in pyproject.toml: raises those that exclude a version, and no other byte.

Knows the tables of PEP 621, dependency groups, uv and Poetry.
"""

import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cve_fixer.apply_fixes import in_its_text
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.python.versions import admits, normalized, raised

_TABLE = re.compile(r"^[ \t]*\[\[?[ \t]*([^\]\n]+?)[ \t]*\]\]?", re.MULTILINE)
_STRINGS = ("project", "project.optional-dependencies", "dependency-groups", "tool.uv")
_POETRY = re.compile(
    r"tool\.poetry(?:\.group\.[^.]+)?\.(?:dev-)?dependencies(?:\.(?P<name>[^.]+))?"
)
_STRING = re.compile(
    # A comment, or any other string, is read over: what looks like a requirement in it is none.
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


def fix(fixes: list[Fix], root: Path) -> Outcome:
    """Where no lock file speaks, the pin in pyproject.toml does."""
    return in_its_text(fixes, root, admitting)


def read_pyproject(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CannotFix(f"pyproject.toml cannot be read: {error}") from None


def admitting(text: str, package: str, version: str) -> str:
    """With each requirement of the package raised that would exclude the version."""

    def renew(found: re.Match[str], name: str = "") -> str:
        specifier = found["specifier"]
        if specifier is None:
            return found[0]
        asked_for = normalized(name or found["name"])
        if asked_for != normalized(package) or admits(specifier, version):
            return found[0]
        new = raised(specifier, version)
        if new is None:
            raise CannotFix(f"`{package} {specifier}` in pyproject.toml excludes {version}")
        start, end = (at - found.start() for at in found.span("specifier"))
        return found[0][:start] + new + found[0][end:]

    edited = _in_each_table(text, renew)
    read_pyproject(edited)
    return edited


def with_override(text: str, requirement: str) -> str:
    """With one more of uv's `override-dependencies`."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    for start, end, table in _tables(text):
        if table != "tool.uv":
            continue
        if present := _OVERRIDES.search(text, start, end):
            edited = f'{text[: present.end()]}"{requirement}", {text[present.end() :]}'
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


def _in_each_table(text: str, renew: Callable[..., str]) -> str:
    tables = list(_tables(text))
    pieces = [text[: tables[0][0]] if tables else text]
    for start, end, table in tables:
        content = text[start:end]
        poetry = _POETRY.fullmatch(table)
        if table in _STRINGS:
            content = _STRING.sub(renew, content)
        elif poetry and poetry["name"]:
            name = poetry["name"].strip("\"'")
            content = _VERSION_ENTRY.sub(partial(renew, name=name), content)
        elif poetry:
            content = _ENTRY.sub(renew, content)
        pieces.append(content)
        following = _TABLE.match(text, end)
        pieces.append(following[0] if following else "")
    return "".join(pieces)


def _tables(text: str) -> list[tuple[int, int, str]]:
    """Where each table's content starts and ends, and its name. An array's lines that start with
    a bracket look like tables too: they carry no name that anyone asks for."""
    found = list(_TABLE.finditer(text))
    ends = [following.start() for following in found[1:]] + [len(text)]
    names = [table[1].replace(" ", "") for table in found]
    return [(found[at].end(), ends[at], name) for at, name in enumerate(names)]
