"""Reads the manifests of Python projects: pyproject.toml, setup.cfg, Pipfile."""

import configparser
from collections.abc import Iterator
from typing import Any

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.pypi.names import (
    ECOSYSTEM,
    exact_version,
    is_name,
    parse_requirements,
)
from agentjobs_dependencies.formats.text import (
    UnreadableManifest,
    Warnings,
    decode,
    parse_toml,
    table_at,
)
from agentjobs_dependencies.model import ParsedManifest, Requirement, Scope
from agentjobs_dependencies.versions.pypi import normalize_name

_MAX_SETUP_BYTES = 1 << 20
# The parser takes time quadratic in the number of invalid lines.
_MAX_SETUP_LINES = 5_000


class PyProject:
    """The tables of a pyproject.toml that say what the project requires. `sources` are the packages
    that do not come from the registry, `dynamic` what setuptools reads from files."""

    def __init__(self, document: dict[str, Any]) -> None:
        tool = table_at(document, "tool")
        self.project = table_at(document, "project")
        self.groups = table_at(document, "dependency-groups")
        self.poetry, self.uv = table_at(tool, "poetry"), table_at(tool, "uv")
        self.dev_dependencies = self.uv.get("dev-dependencies")
        sources = table_at(self.uv, "sources")
        self.sources = {normalize_name(name): source for name, source in sources.items()}
        self.dynamic = table_at(table_at(tool, "setuptools"), "dynamic")

    @property
    def named_files(self) -> list[list[str]]:
        """The files of the project, and those of each extra."""
        extras = table_at(self.dynamic, "optional-dependencies").values()
        return [read_file_names(table) for table in (self.dynamic.get("dependencies"), *extras)]


def read_file_names(table: Any) -> list[str]:
    """The files that a dynamic field of setuptools names."""
    names = table.get("file") if isinstance(table, dict) else None
    return [str(name) for name in (names if isinstance(names, list) else [names]) if name]


def read_pyproject(content: bytes) -> ParsedManifest:
    pyproject = PyProject(parse_toml(content))
    warnings = Warnings()
    where = "tool.uv.dev-dependencies"
    local = {name for name, source in pyproject.sources.items() if _is_local(source)}
    requirements = [
        *_from_project(pyproject.project, warnings),
        *_from_groups(pyproject.groups, warnings),
        *parse_requirements(pyproject.dev_dependencies, "dev", where, warnings),
        *_from_poetry(pyproject.poetry, warnings),
    ]
    return ParsedManifest(
        ECOSYSTEM,
        project=_name(pyproject.project) or _name(pyproject.poetry),
        requirements=limit_requirements((r for r in requirements if r.name not in local), warnings),
        members=tuple(_members(table_at(pyproject.uv, "workspace"))),
        warnings=warnings.all(),
    )


def read_pipfile(content: bytes) -> ParsedManifest:
    document = parse_toml(content)
    warnings = Warnings()
    requirements = [
        *_from_table(table_at(document, "packages"), "runtime", "packages", warnings),
        *_from_table(table_at(document, "dev-packages"), "dev", "dev-packages", warnings),
    ]
    limited = limit_requirements(requirements, warnings)
    return ParsedManifest(ECOSYSTEM, requirements=limited, warnings=warnings.all())


class SetupCfg:
    """What setuptools reads from a setup.cfg; the values are lines of requirements, or of files
    (`file:`) that have them."""

    def __init__(self, content: bytes) -> None:
        if len(content) > _MAX_SETUP_BYTES:
            raise UnreadableManifest(
                f"larger than {_MAX_SETUP_BYTES >> 20} MiB: too large for a setup.cfg"
            )
        if content.count(b"\n") + content.count(b"\r") > _MAX_SETUP_LINES:
            raise UnreadableManifest(
                f"more than {_MAX_SETUP_LINES} lines: too long for a setup.cfg"
            )
        text, reasons = decode(content)
        self.warnings = Warnings(reasons)
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(text)
        except configparser.Error as error:
            raise UnreadableManifest(f"not valid: {' '.join(str(error).split())[:200]}") from None
        section = "options.extras_require"
        self.name = parser.get("metadata", "name", fallback="")
        self.install_requires = parser.get("options", "install_requires", fallback="")
        self.extras = dict(parser.items(section)) if parser.has_section(section) else {}

    @property
    def named_files(self) -> list[list[str]]:
        """The files of the project, and those of each extra."""
        return [_named_files(value) for value in (self.install_requires, *self.extras.values())]


def read_setup_cfg(content: bytes) -> ParsedManifest:
    setup_cfg = SetupCfg(content)
    warnings = setup_cfg.warnings
    lines = _split_lines(setup_cfg.install_requires)
    requirements = parse_requirements(lines, "runtime", "install_requires", warnings)
    for extra, value in setup_cfg.extras.items():
        where = f"extras_require {extra[:100]}"
        requirements += parse_requirements(_split_lines(value), "optional", where, warnings)
    return ParsedManifest(
        ECOSYSTEM,
        project=normalize_name(setup_cfg.name) if is_name(setup_cfg.name) else "",
        requirements=limit_requirements(requirements, warnings),
        warnings=warnings.all(),
    )


def _named_files(value: str) -> list[str]:
    if not value.lstrip().startswith("file:"):
        return []
    return [name.strip() for name in value.partition(":")[2].replace("\n", ",").split(",")]


def _from_project(project: dict[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    yield from parse_requirements(
        project.get("dependencies"), "runtime", "project.dependencies", warnings
    )
    for extra, texts in table_at(project, "optional-dependencies").items():
        where = f"project.optional-dependencies.{extra[:100]}"
        yield from parse_requirements(texts, "optional", where, warnings)


def _from_groups(groups: dict[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    """`include-group` entries (PEP 735) are skipped, because every group is read."""
    for group, texts in groups.items():
        own = texts
        if isinstance(texts, list):
            own = [t for t in texts if not (isinstance(t, dict) and "include-group" in t)]
        yield from parse_requirements(own, "dev", f"dependency-groups.{group[:100]}", warnings)


def _from_poetry(poetry: dict[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    where = "tool.poetry.dependencies"
    yield from _from_table(table_at(poetry, "dependencies"), "runtime", where, warnings)
    where = "tool.poetry.dev-dependencies"
    yield from _from_table(table_at(poetry, "dev-dependencies"), "dev", where, warnings)
    groups = table_at(poetry, "group")
    for group in groups:
        where = f"tool.poetry.group.{group[:100]}.dependencies"
        dependencies = table_at(table_at(groups, group), "dependencies")
        yield from _from_table(
            dependencies, "runtime" if group == "main" else "dev", where, warnings
        )


def _from_table(
    table: dict[str, Any], scope: Scope, where: str, warnings: Warnings
) -> Iterator[Requirement]:
    """Names with a version or a table each, as in Poetry and pipenv."""
    for name, value in table.items():
        if not is_name(name):
            warnings.add(f"{where} has an invalid name: {name[:100]!r}")
            continue
        if normalize_name(name) == "python":
            continue
        # A list has one table for each environment.
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, str | dict):
                warnings.add(f"{where}.{name} is neither a version nor a table")
            elif not _is_local(entry):
                yield _requirement(normalize_name(name), entry, scope)


def _requirement(name: str, value: str | dict[str, Any], scope: Scope) -> Requirement:
    if isinstance(value, str):
        specifier = value
    else:
        url = value.get("git") or value.get("url")
        specifier = f"@ {url}" if url else str(value.get("version", ""))
        if value.get("optional") is True and scope == "runtime":
            scope = "optional"
    specifier = "" if specifier.strip() == "*" else specifier.strip()
    # A bare version means exactly that version.
    bare = f"=={specifier}" if specifier[:1].isdigit() else specifier
    return Requirement(name, specifier, exact_version(bare), scope)


def _is_local(source: Any) -> bool:
    """True if the source is in the repository, in all environments."""
    if isinstance(source, list):
        return bool(source) and all(_is_local(item) for item in source)
    return isinstance(source, dict) and bool(source.get("path") or source.get("workspace"))


def _members(workspace: dict[str, Any]) -> Iterator[str]:
    for key, sign in (("members", ""), ("exclude", "!")):
        patterns = workspace.get(key)
        if isinstance(patterns, list):
            yield from (sign + pattern for pattern in patterns if isinstance(pattern, str))


def _name(table: dict[str, Any]) -> str:
    name = table.get("name")
    return normalize_name(name) if isinstance(name, str) and is_name(name) else ""


def _split_lines(value: str) -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in value.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "file:"))]
