"""Raises pins in a pyproject.toml that no lock file covers, and checks with uv that the project can
be installed: with each Python, extra and dependency group."""

from collections.abc import Collection
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.python import pip_compile, requirement_text
from agentjobs_dependencies.fixes.python.pip_compile import Others, Setting
from agentjobs_dependencies.fixes.python.project_requirements import (
    ProjectRequirements,
    read_project,
)
from agentjobs_dependencies.fixes.python.pyproject import allow_version
from agentjobs_dependencies.fixes.python.runtime import supported_pythons
from agentjobs_dependencies.versions.pypi import is_same, normalize_name

_MAX_PARTS = 10


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    path, text = tree.open_file(root, fix.manifest)
    edited = allow_version(text, fix.package, fix.new)
    before, after = (read_project(path, root, content) for content in (text, edited))
    if edited == text and not _is_pinned(after, fix):
        raise CannotFix(f"{fix.manifest} does not pin `{fix.package}`")
    alternatives = install_settings(before, after, supported_pythons(root, fix.manifest))
    resolution = pip_compile.resolve_pins(before.base, after.base, None, fix, alternatives)
    tree.write(path, edited)
    unread = [
        f"What {subject} in {fix.manifest} requires was not checked: install the project."
        for subject in after.unread
    ]
    return Outcome(fixed=[fix], unproven=[*resolution.unproven, *unread])


def _is_pinned(project: ProjectRequirements, fix: Fix) -> bool:
    """True after the fix of a file that was compiled from this one."""
    version = requirement_text.pins(project.select()).get(normalize_name(fix.package), "")
    return is_same(version, fix.new)


def install_settings(
    before: ProjectRequirements, after: ProjectRequirements, pythons: tuple[str, ...]
) -> list[list[Setting]]:
    """All extras and groups at once, or, if they exclude each other, those that the fix changes."""
    parts: list[tuple[Collection[str], Collection[str]]] = [
        ((), ()),
        *(((name,), ()) for name in after.extras),
        *(((), (name,)) for name in after.groups),
    ]
    selected = [(before.select(*part), after.select(*part)) for part in parts]
    changed = [pair for pair in selected if pair[0] != pair[1]] or selected
    # The last resort is the Python of the worker: the project's may be too old for the resolver.
    return [
        [Setting(python, Others(old), Others(new)) for old, new in pairs]
        for pairs in ([(before.select(), after.select())], changed[:_MAX_PARTS])
        for python in filter(None, (pythons, ("",)))
    ]
