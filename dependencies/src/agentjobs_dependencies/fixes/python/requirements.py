"""Fixes requirements files, and the files that they were compiled from or are installed with.

`requirement_lines` edits the text, `pip_compile` checks whether the pins are still consistent.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.markdown import code, escape
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.python import pip_compile, pyproject, requirement_text
from agentjobs_dependencies.fixes.python.compile_sources import Sources, find_sources
from agentjobs_dependencies.fixes.python.pip_compile import (
    Others,
    Resolution,
    ResolverFailed,
    Setting,
)
from agentjobs_dependencies.fixes.python.project_requirements import read_setup_cfg, read_static
from agentjobs_dependencies.fixes.python.requirement_lines import (
    allow_version,
    relax_pins,
    update_pin,
    without_pin,
)
from agentjobs_dependencies.fixes.python.requirement_text import read_requirements
from agentjobs_dependencies.fixes.python.runtime import supported_pythons
from agentjobs_dependencies.fixes.python.uv_export import Export, export_again, find_export
from agentjobs_dependencies.versions.pypi import is_same, normalize_name

_MAX_GROUPS = 10
# Local projects and URLs, whose requirements are not known.
_UNREAD = re.compile(
    r"^[ \t]*(?P<line>(?:(?:-e|--editable)[ \t=]|\.{1,2}(?:[/\[\s]|$)|(?!-)[^\s#;]*://"
    r"|[^\s#;]+[ \t]+@[ \t])[^\n]{0,100})",
    re.MULTILINE,
)


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    path, text = tree.open_file(root, fix.manifest)
    export = find_export(path, text, root)
    if export and export.options is not None:
        return _fix_exported(export, path, text, fix, root)
    edited = update_pin(text, fix)
    sources = find_sources(path, text, fix, root)
    settings = install_settings(fix, root, sources.edits)
    try:
        resolution = pip_compile.resolve_pins(text, edited, sources.inputs, fix, settings)
    except CannotFix as conflict:
        resolution = _resolve_connected(text, edited, sources, fix, settings, conflict)
    tree.write(path, resolution.text)
    changes = list(resolution.changes)
    for source, source_text in sources.edits.items():
        if source_text != tree.read(source):
            tree.write(source, source_text)
            name = code(source.relative_to(root).as_posix())
            changes.append(f"{name} required an older version and now allows {escape(fix.new)}.")
    changes += _raise_other_files(fix, root)
    unproven = [*resolution.unproven, *sources.unproven]
    if normalize_name(fix.package) not in requirement_text.pins("".join(read_requirements(edited))):
        unproven.append(
            f"The line of {fix.package} in {fix.manifest} could not be read: install it."
        )
    if unread := _UNREAD.search(text):
        line = code(unread["line"].strip())
        unproven.append(f"What {line} in {fix.manifest} requires was not checked: install it.")
    if export:
        unproven.append(f"{fix.manifest} was edited: run the `uv export` of its header again.")
    return Outcome(fixed=[fix], changes=changes, unproven=unproven)


def _fix_exported(export: Export, path: Path, text: str, fix: Fix, root: Path) -> Outcome:
    """The lock file is fixed before the files that are exported from it."""
    exported = export_again(export, text, root)
    lock = export.lock.relative_to(root).as_posix()
    described = pip_compile.describe_changes(text, exported, fix, f"was exported from {code(lock)}")
    settings = install_settings(fix, root)
    resolution = pip_compile.resolve_pins(text, exported, None, fix, settings)
    tree.write(path, resolution.text)
    changes = [*described, *resolution.changes, *_raise_other_files(fix, root)]
    return Outcome(fixed=[fix], changes=changes, unproven=[*resolution.unproven])


def _resolve_connected(
    text: str,
    edited: str,
    sources: Sources,
    fix: Fix,
    settings: list[list[Setting]],
    conflict: CannotFix,
) -> Resolution:
    """Pins that exclude the new version are raised too, unless the file is compiled from others."""
    if sources.inputs:
        raise conflict
    try:
        raised, changes = _raise_connected_pins(edited, fix, settings[0][0])
        resolution = pip_compile.resolve_pins(text, raised, None, fix, settings)
    except (CannotFix, ResolverFailed):
        raise conflict from None
    return replace(resolution, changes=(*changes, *resolution.changes))


def _raise_connected_pins(text: str, fix: Fix, setting: Setting) -> tuple[str, list[str]]:
    """The text with other pins raised to the lowest versions that fit, with the same major version,
    and what changed. `text` has the new version already. Raises CannotFix if no versions fit.
    """
    options = ["--resolution=lowest-direct"]
    options += ["--generate-hashes"] if "--hash=" in text else []
    resolved = pip_compile.resolve(
        relax_pins(text, keep=fix.package), setting.others_after, fix, setting.pythons[0], *options
    )
    new_pins, blocks = requirement_text.pins(resolved), requirement_text.blocks(resolved)
    changes = []
    for name, old in requirement_text.pins(text).items():
        new = new_pins.get(name, old)
        if name == normalize_name(fix.package) or is_same(old, new):
            continue
        hashes = requirement_text.hashes(blocks[name])
        text = update_pin(text, Fix("PyPI", fix.manifest, name, old, new, hashes=hashes))
        changes.append(
            f"{code(name)} {escape(old)} → {escape(new)}, because {code(fix.package)} "
            f"{escape(fix.new)} needs it."
        )
    return text, changes


def _raise_other_files(fix: Fix, root: Path) -> Iterator[str]:
    """Files that are installed together with the manifest must allow the version too."""
    for name in _others(fix):
        with suppress(CannotFix):
            path, text = tree.open_file(root, name)
            edited = _allow_in_other_file(name, text, fix)
            if edited != text:
                tree.write(path, edited)
                yield f"{code(name)} excluded {escape(fix.new)} and now allows it."


def _allow_in_other_file(name: str, text: str, fix: Fix) -> str:
    """Pins of requirements files have fixes of their own; constraints and sources have none."""
    if _is_project(name):
        return pyproject.allow_version(text, fix.package, fix.new)
    path = PurePosixPath(name)
    if path.suffix not in (".txt", ".in"):
        return text
    has_own_fixes = path.suffix == ".txt" and not _is_constraints(name)
    return allow_version(text, fix.package, fix.new, keeps_pins=has_own_fixes)


def _is_project(name: str) -> bool:
    return PurePosixPath(name).name == "pyproject.toml"


def _is_constraints(name: str) -> bool:
    return "constraints" in PurePosixPath(name).stem


def _others(fix: Fix) -> list[str]:
    """The files that are installed together with the manifest."""
    return sorted({name for group in fix.installed_together for name in group} - {fix.manifest})


def install_settings(fix: Fix, root: Path, sources: Collection[Path] = ()) -> list[list[Setting]]:
    """From how the project says that the file is installed, with one setting for each group of
    files, to how it may be installed alone. `sources` are not installed."""
    # The last resort is the Python of the worker: the project's may be too old for the resolver.
    pythons = [versions for versions in (supported_pythons(root, fix.manifest), ("",)) if versions]
    named = [
        [name for name in group if name != fix.manifest and root / name not in sources]
        for group in fix.installed_together[:_MAX_GROUPS]
    ]
    # Extras and dependency groups of a project need not fit together with all that is installed.
    without_projects = [[name for name in group if not _is_project(name)] for group in named]
    variants = [variant for variant in (named, without_projects) if any(variant)]
    together = [
        [Setting(python, *_read_group(group, fix, root)) for group in variant]
        for variant in (variants[:1] if variants[:1] == variants[1:] else variants)
        for python in pythons
    ]
    return [*together, *([Setting(python)] for python in pythons)]


def _read_group(group: Sequence[str], fix: Fix, root: Path) -> tuple[Others, Others]:
    """The other files of the group, before the fix and after it."""
    before: dict[bool, list[str]] = {True: [], False: []}
    after: dict[bool, list[str]] = {True: [], False: []}
    for name in group:
        is_source = name.endswith(".in") and f"{name.removesuffix('.in')}.txt" in group
        # What was compiled from a source is installed, and not the source.
        if is_source or not (name.endswith((".txt", ".in", "setup.cfg")) or _is_project(name)):
            continue
        with suppress(CannotFix):
            path, text = tree.open_file(root, name)
            if name.endswith("setup.cfg"):
                # It is not edited, so the new version has to fit it as it is.
                before[False].append(read_setup_cfg(text))
                after[False].append(read_setup_cfg(text))
                continue
            edited = _allow_in_other_file(name, text, fix)
            if _is_project(name):
                text, edited = (read_static(path, root, content) for content in (text, edited))
            before[_is_constraints(name)].append(text)
            # Other files that have the package at a vulnerable version have fixes of their own.
            after[_is_constraints(name)].append(without_pin(edited, fix.package))
    joined = [
        Others("\n".join(requirements[False]), "\n".join(requirements[True]))
        for requirements in (before, after)
    ]
    return joined[0], joined[1]
