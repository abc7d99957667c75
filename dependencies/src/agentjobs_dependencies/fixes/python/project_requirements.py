"""Reads what a project requires from its pyproject.toml or setup.cfg, without a build.

`dynamic` requirements are read if setuptools takes them from files.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.python.pyproject import read_pyproject
from agentjobs_dependencies.fixes.python.requirement_text import read_requirements
from agentjobs_dependencies.formats.pypi.project import PyProject, SetupCfg, read_file_names
from agentjobs_dependencies.formats.pypi.requirements import read_lines
from agentjobs_dependencies.formats.text import UnreadableManifest, table_at
from agentjobs_dependencies.versions.pypi import normalize_name

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_LEGACY_FILES = ("setup.py", "setup.cfg")


@dataclass(slots=True)
class ProjectRequirements:
    """One requirement a line. `unread` says what could not be read, each worded as an object."""

    name: str = ""
    base: str = ""
    extras: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def select(
        self, extras: Iterable[str] | None = None, groups: Iterable[str] | None = None
    ) -> str:
        """The base with these extras and groups; None means all."""
        chosen = self.extras if extras is None else {normalize_name(extra) for extra in extras}
        added = [text for extra, text in self.extras.items() if extra in chosen]
        wanted = self.groups if groups is None else {normalize_name(group) for group in groups}
        added += [text for group, text in self.groups.items() if group in wanted]
        return "".join((self.base, *added))


def read_project(path: Path, root: Path, text: str) -> ProjectRequirements:
    """`text` is that of the pyproject.toml at `path`. Raises CannotFix if it is not valid."""
    return _read(_Reader(path, root, text))


def read_static(path: Path, root: Path, text: str) -> str:
    """All requirements that are in the pyproject.toml itself."""
    return _read(_Reader(path, root, text, with_files=False)).select()


def _read(reader: "_Reader") -> ProjectRequirements:
    try:
        return reader.read()
    except RecursionError:
        raise CannotFix("the extras or groups of pyproject.toml are nested too deeply") from None


def read_setup_cfg(text: str) -> str:
    """All requirements that are in the setup.cfg itself. Raises CannotFix if it is not valid."""
    try:
        setup_cfg = SetupCfg(text.encode("utf-8", "surrogateescape"))
    except UnreadableManifest as error:
        raise CannotFix(f"setup.cfg cannot be read: {error}") from None
    values = (setup_cfg.install_requires, *setup_cfg.extras.values())
    return "".join(line for value in values for line in read_requirements(value))


class _Reader:
    def __init__(self, path: Path, root: Path, text: str, *, with_files: bool = True) -> None:
        self._tables = PyProject(read_pyproject(text))
        self._directory = path.parent
        self._root = root
        self._with_files = with_files
        self._project = self._tables.project
        self._groups = self._tables.groups
        self._result = ProjectRequirements(name=normalize_name(str(self._project.get("name", ""))))

    def read(self) -> ProjectRequirements:
        result = self._result
        result.base = self._read_base()
        extras = self._read_extras()
        result.extras = {name: self._expand(name, extras, set()) for name in extras}
        result.base = self._with_own_extras(result.base, extras, set())
        result.groups = {
            normalize_name(name): self._read_group(name, set()) for name in self._groups
        }
        if isinstance(dev := self._tables.dev_dependencies, list):
            result.groups["dev"] = result.groups.get("dev", "") + self._lines(dev)
        if self._tables.poetry.keys() & {"dependencies", "dev-dependencies", "group"}:
            result.unread.append("the tables of Poetry")
        result.unread = list(dict.fromkeys(result.unread))
        return result

    def _read_base(self) -> str:
        if not self._project:
            legacy = (name for name in _LEGACY_FILES if (self._directory / name).is_file())
            self._result.unread += (f"`{name}`" for name in legacy)
        if "dependencies" not in self._dynamic:
            return self._lines(self._project.get("dependencies") or [])
        text = self._read_files(self._tables.dynamic.get("dependencies"))
        if text is None:
            self._result.unread.append("the dynamic `dependencies`")
        return text or ""

    def _read_extras(self) -> dict[str, str]:
        if "optional-dependencies" not in self._dynamic:
            tables = table_at(self._project, "optional-dependencies")
            return {normalize_name(name): self._lines(lines) for name, lines in tables.items()}
        tables = table_at(self._tables.dynamic, "optional-dependencies")
        texts = {normalize_name(name): self._read_files(table) for name, table in tables.items()}
        if not texts or None in texts.values():
            self._result.unread.append("the dynamic `optional-dependencies`")
        return {name: text or "" for name, text in texts.items()}

    @property
    def _dynamic(self) -> list[Any]:
        dynamic = self._project.get("dynamic")
        return dynamic if isinstance(dynamic, list) else []

    def _read_files(self, table: Any) -> str | None:
        """None if they are not in the repository."""
        names = read_file_names(table)
        if not names or not self._with_files:
            return None
        try:
            return "".join(
                self._lines(line.text for line in read_lines(tree.read(self._resolve(name))))
                for name in names
            )
        except (CannotFix, ValueError):
            return None

    def _resolve(self, name: str) -> Path:
        relative = (self._directory / name).relative_to(self._root)
        return tree.resolve_file(self._root, relative.as_posix())

    def _read_group(self, name: str, seen: set[str]) -> str:
        """A group may include others (PEP 735)."""
        entries = self._groups.get(name)
        if not isinstance(entries, list) or name in seen:
            return ""
        seen.add(name)
        included = {
            normalize_name(str(entry["include-group"])) for entry in entries if _includes(entry)
        }
        return self._lines(entry for entry in entries if not _includes(entry)) + "".join(
            self._read_group(group, seen)
            for group in self._groups
            if normalize_name(group) in included
        )

    def _expand(self, extra: str, extras: Mapping[str, str], seen: set[str]) -> str:
        """An extra may name others of the same project: `demo[test]`."""
        if extra in seen or extra not in extras:
            return ""
        seen.add(extra)
        return self._with_own_extras(extras[extra], extras, seen)

    def _with_own_extras(self, text: str, extras: Mapping[str, str], seen: set[str]) -> str:
        lines: list[str] = []
        for line in text.splitlines(keepends=True):
            match = _NAME.match(line)
            if not match or not self._result.name or normalize_name(match[1]) != self._result.name:
                lines.append(line)
                continue
            named = (normalize_name(extra.strip()) for extra in (match[2] or "").split(","))
            lines += [self._expand(extra, extras, seen) for extra in named]
        return "".join(lines)

    def _lines(self, requirements: Any) -> str:
        lines: list[str] = []
        for requirement in requirements if isinstance(requirements, Iterable) else ():
            text = str(requirement)
            name = _NAME.match(text)
            read = list(read_requirements(text))
            if not read or (name and normalize_name(name[1]) in self._tables.sources):
                self._result.unread.append(f"`{' '.join(text.split())[:100]}`")
            else:
                lines += read
        return "".join(lines)


def _includes(entry: Any) -> bool:
    return isinstance(entry, dict) and "include-group" in entry
