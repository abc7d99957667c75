"""Checks with uv whether a set of pins is consistent, and recompiles it if not.

uv only gets names, versions and markers, so no line of the repository can make it build or fetch
anything but the registry's packages.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from agentjobs_dependencies.fixes.markdown import code, describe_other_changes
from agentjobs_dependencies.fixes.model import CannotFix, Fix
from agentjobs_dependencies.fixes.python.fake_python import create_python
from agentjobs_dependencies.fixes.python.requirement_text import (
    PIN,
    blocks,
    compile_options,
    head,
    is_compiled,
    lists_everything,
    pins,
    python_option,
    read_requirements,
)
from agentjobs_dependencies.fixes.python.sdist_metadata import fetch_requirements
from agentjobs_dependencies.fixes.python.static_metadata import dependency_metadata
from agentjobs_dependencies.fixes.run_tool import ToolTimedOut, run_tool
from agentjobs_dependencies.fixes.tree import match_line_endings
from agentjobs_dependencies.versions.pypi import is_same, normalize_name

_BUILT = re.compile(r"build `([A-Za-z0-9._-]+)==([^`\s]+)`")
# Each Python is a run of its own, and the registry need not be asked again for each.
_INDEX = """\
[[index]]
url = {}
default = true
cache-control = {{ api = "max-age=600", files = "max-age=600" }}
"""
_REGISTRY_FAILED = re.compile(r"\b(?:Failed to fetch|Request failed|unexpected JSON)\b")
_MAX_REASON_CHARACTERS = 300
_LAYOUT = ("--generate-hashes", "--no-annotate", "--annotation-style=line")


class ResolverFailed(Exception):
    """A failure that says nothing about the pins: for example, the registry does not respond."""


@dataclass(frozen=True, slots=True)
class Resolution:
    text: str
    changes: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileInputs:
    """What a compiled file is generated from after the fix: files by their names in the command,
    of which `sources` are arguments, and options.

    `before` and `after` are the requirements of the sources. The file cannot be compiled again
    unless the inputs are complete.
    """

    files: Mapping[str, str]
    sources: tuple[str, ...]
    options: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Others:
    """The requirements and constraints of the other files of an installation."""

    requirements: str = ""
    constraints: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a file is installed: with which Pythons, and together with which other requirements,
    before the fix and after it."""

    pythons: tuple[str, ...] = ("",)
    others_before: Others = Others()
    others_after: Others = Others()

    def with_inputs(self, inputs: CompileInputs) -> "Setting":
        """What was compiled from the inputs must fit them too."""
        return Setting(
            self.pythons,
            replace(
                self.others_before,
                requirements=f"{self.others_before.requirements}\n{inputs.before}",
            ),
            replace(
                self.others_after, requirements=f"{self.others_after.requirements}\n{inputs.after}"
            ),
        )


def resolve_pins(
    before: str,
    after: str,
    inputs: CompileInputs | None,
    fix: Fix,
    alternatives: Sequence[Sequence[Setting]],
) -> Resolution:
    """The final text: `after` if its pins are consistent and complete, otherwise completed.

    The settings of the first alternative count in which pins are consistent; without one, nothing
    can be proven.
    """
    try:
        resolution = _resolve_first(before, after, inputs, fix, alternatives)
    except ResolverFailed as error:
        reason = " ".join(str(error).split())[-_MAX_REASON_CHARACTERS:]
    else:
        if resolution is not None:
            return resolution
        reason = "those before the fix cannot be installed together either."
    unchecked = f"The pins of {fix.manifest} could not be checked for conflicts, because {reason}"
    return Resolution(after, unproven=(unchecked,))


def _resolve_first(
    before: str,
    after: str,
    inputs: CompileInputs | None,
    fix: Fix,
    alternatives: Sequence[Sequence[Setting]],
) -> Resolution | None:
    for settings in alternatives:
        text, is_proven = after, False
        changes: tuple[str, ...] = ()
        for candidate in settings:
            setting = candidate.with_inputs(inputs) if inputs else candidate
            if resolution := _resolve_setting(before, text, inputs, fix, setting):
                text, changes = resolution.text, (*changes, *resolution.changes)
                is_proven = True
        if is_proven:
            return Resolution(text, tuple(dict.fromkeys(changes)))
    return None


def _resolve_setting(
    before: str, after: str, inputs: CompileInputs | None, fix: Fix, setting: Setting
) -> Resolution | None:
    """None if the setting has no Python with which the pins are consistent.

    The new pins must be consistent with version Python with which the old ones are.
    """
    compilable = inputs if is_compiled(before) and inputs and inputs.is_complete else None
    consistent: list[str] = []
    missing: dict[str, str] = {}
    for python in setting.pythons:
        try:
            names = _find_missing(after, setting.others_after, fix, python)
        except CannotFix as conflict:
            if not _is_resolvable(before, setting.others_before, fix, python):
                continue
            if not compilable:
                raise CannotFix(_describe_conflict(conflict, fix, python)) from None
            lowest = next(iter(consistent), python)
            return _recompile(before, compilable, fix, setting, lowest)
        consistent.append(python)
        if names and _was_complete(before, setting, fix, python):
            missing |= dict.fromkeys(names, python)
    if not consistent:
        return None
    if not missing:
        return Resolution(after)
    if compilable:
        return _recompile(before, compilable, fix, setting, consistent[0])
    return _add_pins(missing, after, fix, setting)


def _describe_conflict(conflict: CannotFix, fix: Fix, python: str) -> str:
    where = f" with Python {python}" if python else ""
    return f"another requirement excludes {fix.package} {fix.new}{where}: {conflict}"


def _is_resolvable(text: str, others: Others, fix: Fix, python: str) -> bool:
    try:
        resolve(text, others, fix, python)
    except CannotFix:
        return False
    return True


def _was_complete(text: str, setting: Setting, fix: Fix, python: str) -> bool:
    try:
        return lists_everything(text) and not _find_missing(
            text, setting.others_before, fix, python
        )
    except CannotFix:
        return False


def _find_missing(text: str, others: Others, fix: Fix, python: str) -> list[str]:
    """Packages that the pins require but do not include."""
    resolved = pins(resolve(text, others, fix, python))
    return sorted(resolved.keys() - pins(text).keys() - pins(others.requirements).keys())


def resolve(text: str, others: Others, fix: Fix, python: str, *options: str) -> str:
    """The pins and their requirements, as uv writes them. Raises CannotFix on a conflict, and
    ResolverFailed."""
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        directory = Path(name)
        lines = [*read_requirements(text), *read_requirements(others.requirements)]
        (directory / "pins.in").write_text("".join(lines), encoding="utf-8")
        if constraints := "".join(read_requirements(others.constraints, with_extras=False)):
            (directory / "constraints.in").write_text(constraints, encoding="utf-8")
            options = ("--constraints", "constraints.in", *options)
        version = ("--python-version", python) if python else ()
        return _compile(directory, ["pins.in"], fix, *version, "--no-header", *options)


def _add_pins(missing: dict[str, str], text: str, fix: Fix, setting: Setting) -> Resolution:
    """Insert the missing pins in alphabetical order, as in compiled files.

    `missing` maps version to the Python that needs it.
    """
    options = [name for name in compile_options(text) if name in _LAYOUT]
    new_blocks: dict[str, str] = {}
    for python in dict.fromkeys(missing.values()):
        new_blocks |= blocks(resolve(text, setting.others_after, fix, python, *options))
    for name in sorted(missing):
        following = (pin for pin in PIN.finditer(text) if normalize_name(pin["name"]) > name)
        index = next((pin.start() for pin in following), len(text))
        gap = "" if index == 0 or text[index - 1] == "\n" else "\n"
        text = text[:index] + match_line_endings(text, gap + new_blocks[name]) + text[index:]
    added = ", ".join(code(name) for name in sorted(missing))
    note = f"{code(fix.package)} requires {added}, so {code(fix.manifest)} now pins that too."
    return Resolution(text, (note,))


def _recompile(
    before: str, inputs: CompileInputs, fix: Fix, setting: Setting, python: str
) -> Resolution:
    """`python` counts if the file does not name the one that it was compiled for."""
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        directory = Path(name)
        for file_name, text in inputs.files.items():
            (directory / file_name).parent.mkdir(parents=True, exist_ok=True)
            (directory / file_name).write_text(text.replace("\r\n", "\n"), encoding="utf-8")
        output = directory / ".compiled"
        output.write_text(before.replace("\r\n", "\n"), encoding="utf-8")
        version = ("--python-version", python) if python and not python_option(before) else ()
        options = (
            *inputs.options,
            *version,
            *compile_options(before),
            "--output-file",
            output.name,
        )
        upgrade = ("--upgrade-package", f"{fix.package}=={fix.new}", "--no-header")
        _compile(directory, inputs.sources, fix, *options, *upgrade)
        body = output.read_text(encoding="utf-8")
    after = match_line_endings(before, head(before) + body)
    for target in setting.pythons if setting.others_after != Others() else ():
        try:
            resolve(after, setting.others_after, fix, target)
        except CannotFix as conflict:
            if _is_resolvable(before, setting.others_before, fix, target):
                raise CannotFix(_describe_conflict(conflict, fix, target)) from None
    how = "was recompiled with `uv pip compile --upgrade-package`"
    return Resolution(after, describe_changes(before, after, fix, how))


def _compile(directory: Path, sources: Sequence[str], fix: Fix, *options: str) -> str:
    """Runs uv without builds, with the metadata of packages that have no wheel."""
    known = _known_metadata(fix.registry)
    python = create_python("", directory)
    while True:
        settings = _INDEX.format(json.dumps(fix.registry)) + dependency_metadata(known)
        (directory / "uv.toml").write_text(settings, encoding="utf-8")
        try:
            return run_tool(
                *("uv", "pip", "compile", "--config-file", "uv.toml", "--python", python),
                *(*options, "--", *sources),
                directory=directory,
                environment={"UV_PYTHON_DOWNLOADS": "never"},
            )
        except ToolTimedOut as error:
            raise ResolverFailed(str(error)) from None
        except CannotFix as error:
            if _REGISTRY_FAILED.search(str(error)):
                raise ResolverFailed(str(error)) from None
            package = _BUILT.search(str(error))
            if not package or package.groups() in known:
                raise
            name, version = package.groups()
            known[name, version] = fetch_requirements(fix.registry, name, version)


@cache
def _known_metadata(_registry: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Requirements of packages without wheels that earlier runs needed, by name and version."""
    return {}


def describe_changes(before: str, after: str, fix: Fix, how: str) -> tuple[str, ...]:
    """Raises CannotFix if the new text does not have the new version."""
    old, new = pins(before), pins(after)
    package = normalize_name(fix.package)
    if not is_same(new.get(package, ""), fix.new):
        raise CannotFix(f"{fix.manifest} {how} and does not have {package} {fix.new}")
    others = describe_other_changes(old.items(), new.items(), package)
    return (f"{code(fix.manifest)} {how}.", *others)
