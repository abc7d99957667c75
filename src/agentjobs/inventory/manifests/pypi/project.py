"""Reads what a Python project says of itself: pyproject.toml, setup.cfg, Pipfile."""

import configparser
from collections.abc import Iterator
from typing import Any

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.pypi.names import (
    ECOSYSTEM,
    exact_version,
    is_name,
    normalized,
    parse_requirements,
)
from agentjobs.inventory.manifests.text import Unreadable, Warnings, decode, parse_toml
from agentjobs.inventory.model import ParsedManifest, Requirement, Scope

_MAX_SETUP_BYTES = 1 << 20
# The parser takes time by the square of the lines it does not understand.
_MAX_SETUP_LINES = 5_000


def read_pyproject(content: bytes) -> ParsedManifest:
    document = parse_toml(content)
    warnings = Warnings()
    project, tool = _table(document, "project"), _table(document, "tool")
    poetry, uv = _table(tool, "poetry"), _table(tool, "uv")
    local = {normalized(name) for name, source in _table(uv, "sources").items() if _is_near(source)}
    requirements = [
        *_of_project(project, warnings),
        *_of_groups(_table(document, "dependency-groups"), warnings),
        *parse_requirements(
            uv.get("dev-dependencies"), "dev", "tool.uv.dev-dependencies", warnings
        ),
        *_of_poetry(poetry, warnings),
    ]
    return ParsedManifest(
        ECOSYSTEM,
        project=_name(project) or _name(poetry),
        requirements=within_bounds((r for r in requirements if r.name not in local), warnings),
        members=tuple(_members(_table(uv, "workspace"))),
        warnings=warnings.all(),
    )


def read_pipfile(content: bytes) -> ParsedManifest:
    document = parse_toml(content)
    warnings = Warnings()
    requirements = [
        *_of_table(_table(document, "packages"), "runtime", "packages", warnings),
        *_of_table(_table(document, "dev-packages"), "dev", "dev-packages", warnings),
    ]
    kept = within_bounds(requirements, warnings)
    return ParsedManifest(ECOSYSTEM, requirements=kept, warnings=warnings.all())


def read_setup_cfg(content: bytes) -> ParsedManifest:
    if len(content) > _MAX_SETUP_BYTES:
        raise Unreadable(f"larger than {_MAX_SETUP_BYTES >> 20} MiB: no setup.cfg is")
    if content.count(b"\n") + content.count(b"\r") > _MAX_SETUP_LINES:
        raise Unreadable(f"more than {_MAX_SETUP_LINES} lines: no setup.cfg has")
    text, reasons = decode(content)
    warnings = Warnings(reasons)
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise Unreadable(f"not valid: {' '.join(str(error).split())[:200]}") from None
    wanted = _words(parser.get("options", "install_requires", fallback=""))
    requirements = parse_requirements(wanted, "runtime", "install_requires", warnings)
    if parser.has_section("options.extras_require"):
        for extra, value in parser.items("options.extras_require"):
            where = f"extras_require {extra[:100]}"
            requirements += parse_requirements(_words(value), "optional", where, warnings)
    name = parser.get("metadata", "name", fallback="")
    return ParsedManifest(
        ECOSYSTEM,
        project=normalized(name) if is_name(name) else "",
        requirements=within_bounds(requirements, warnings),
        warnings=warnings.all(),
    )


def _of_project(project: dict[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    yield from parse_requirements(
        project.get("dependencies"), "runtime", "project.dependencies", warnings
    )
    for extra, texts in _table(project, "optional-dependencies").items():
        where = f"project.optional-dependencies.{extra[:100]}"
        yield from parse_requirements(texts, "optional", where, warnings)


def _of_groups(groups: dict[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    """A group that includes another (PEP 735) adds nothing: the other is read itself."""
    for group, texts in groups.items():
        own = texts
        if isinstance(texts, list):
            own = [t for t in texts if not (isinstance(t, dict) and "include-group" in t)]
        yield from parse_requirements(own, "dev", f"dependency-groups.{group[:100]}", warnings)


def _of_poetry(poetry: dict[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    where = "tool.poetry.dependencies"
    yield from _of_table(_table(poetry, "dependencies"), "runtime", where, warnings)
    where = "tool.poetry.dev-dependencies"
    yield from _of_table(_table(poetry, "dev-dependencies"), "dev", where, warnings)
    groups = _table(poetry, "group")
    for group in groups:
        where = f"tool.poetry.group.{group[:100]}.dependencies"
        wanted = _table(_table(groups, group), "dependencies")
        yield from _of_table(wanted, "runtime" if group == "main" else "dev", where, warnings)


def _of_table(
    table: dict[str, Any], scope: Scope, where: str, warnings: Warnings
) -> Iterator[Requirement]:
    """Names with a version or a table each, as Poetry and pipenv write them."""
    for name, value in table.items():
        if not is_name(name):
            warnings.add(f"{where} has something that is no name: {name[:100]!r}")
            continue
        if normalized(name) == "python":
            continue
        # Several tables: one for each environment.
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str | dict):
                warnings.add(f"{where}.{name} is neither a version nor a table")
            elif not _is_near(each):
                yield _requirement(normalized(name), each, scope)


def _requirement(name: str, value: str | dict[str, Any], scope: Scope) -> Requirement:
    if isinstance(value, str):
        specifier = value
    else:
        address = value.get("git") or value.get("url")
        specifier = f"@ {address}" if address else str(value.get("version", ""))
        if value.get("optional") is True and scope == "runtime":
            scope = "optional"
    specifier = "" if specifier.strip() == "*" else specifier.strip()
    # A bare version is one exact version here.
    bare = f"=={specifier}" if specifier[:1].isdigit() else specifier
    return Requirement(name, specifier, exact_version(bare), scope)


def _is_near(source: Any) -> bool:
    """Whether it comes from the repository itself. One of several may, for some environments."""
    if isinstance(source, list):
        return bool(source) and all(_is_near(each) for each in source)
    return isinstance(source, dict) and bool(source.get("path") or source.get("workspace"))


def _members(workspace: dict[str, Any]) -> Iterator[str]:
    for key, sign in (("members", ""), ("exclude", "!")):
        patterns = workspace.get(key)
        if isinstance(patterns, list):
            yield from (sign + pattern for pattern in patterns if isinstance(pattern, str))


def _name(table: dict[str, Any]) -> str:
    name = table.get("name")
    return normalized(name) if isinstance(name, str) and is_name(name) else ""


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _words(value: str) -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in value.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "file:"))]
