"""Changes `name==old` and its hashes in requirements files, and no other byte.

`pip_compile` checks whether the pins are still consistent.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from cve_fixer import tree
from cve_fixer.apply_fixes import fix_each
from cve_fixer.markdown import code, escape
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.python import pip_compile
from cve_fixer.python.pip_compile import Others, Setting
from cve_fixer.python.runtime import supported_pythons
from cve_fixer.python.versions import allows, is_same, normalize, raise_specifier

_MAX_GROUPS = 10
_PHYSICAL = re.compile(r"[^\n]*\n|[^\n]+")
# A byte order mark at the start of a file is not part of the name.
_START = (
    r"(?P<start>\ufeff?[ \t]*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)[ \t]*(?:\[[^\]\n]*\])?[ \t]*)"
)
_PIN = re.compile(rf"{_START[:-1]}===?[ \t]*)(?P<version>[^\s;,#\\]+)")
_SPECIFIER = re.compile(rf"{_START}(?P<specifier>[=<>~!][^;#\\\r\n]*?)(?=[ \t]*(?:[;#\\\r\n]|$))")
# Local projects and URLs, whose requirements are not known.
_UNREAD = re.compile(
    r"^[ \t]*(?P<line>(?:(?:-e|--editable)[ \t=]|\.{1,2}(?:[/\[\s]|$)|(?!-)[^\s#;]*://"
    r"|[^\s#;]+[ \t]+@[ \t])[^\n]{0,100})",
    re.MULTILINE,
)
_HASH = re.compile(r"--hash[= ][A-Za-z0-9]+:[A-Za-z0-9]+")
_BEFORE_HASH = re.compile(r"[ \t]*(?:\\\r?\n[ \t]*)?$")


def apply(fixes: list[Fix], root: Path) -> Outcome:
    return fix_each(fixes, lambda fix: _fix(fix, root))


def _fix(fix: Fix, root: Path) -> Outcome:
    path = tree.resolve_file(root, fix.manifest)
    text = tree.read(path)
    edited = update_pin(text, fix)
    source, source_text = _source(path, fix)
    settings = install_settings(fix, root)
    resolution = pip_compile.resolve_pins(text, edited, source_text, fix, settings)
    tree.write(path, resolution.text)
    changes = list(resolution.changes)
    if source is not None and source_text is not None and source_text != tree.read(source):
        tree.write(source, source_text)
        name = code(source.relative_to(root).as_posix())
        changes.append(f"{name} required an older version and now allows {escape(fix.new)}.")
    changes += _raise_other_files(fix, root)
    unproven = list(resolution.unproven)
    if unread := _UNREAD.search(text):
        line = code(unread["line"].strip())
        unproven.append(f"What {line} in {fix.manifest} requires was not checked: install it.")
    return Outcome(fixed=[fix], changes=changes, unproven=unproven)


def _raise_other_files(fix: Fix, root: Path) -> Iterator[str]:
    """Files that are installed together with the manifest must allow the version too."""
    for name in _others(fix):
        with suppress(CannotFix):
            path = tree.resolve_file(root, name)
            text = tree.read(path)
            edited = _allow_in_other_file(name, text, fix)
            if edited != text:
                tree.write(path, edited)
                yield f"{code(name)} excluded {escape(fix.new)} and now allows it."


def _allow_in_other_file(name: str, text: str, fix: Fix) -> str:
    """Pins of requirements files have fixes of their own; constraints and sources have none."""
    path = PurePosixPath(name)
    if path.suffix not in (".txt", ".in"):
        return text
    has_own_fixes = path.suffix == ".txt" and not _is_constraints(name)
    return allow_version(text, fix.package, fix.new, keeps_pins=has_own_fixes)


def _is_constraints(name: str) -> bool:
    return "constraints" in PurePosixPath(name).stem


def _others(fix: Fix) -> list[str]:
    """The files that are installed together with the manifest."""
    return sorted({name for group in fix.installed_together for name in group} - {fix.manifest})


def install_settings(fix: Fix, root: Path) -> list[list[Setting]]:
    """From how the project says that the file is installed, with one setting for each group of
    files, to how it may be installed alone."""
    # The last resort is the Python of the worker: the project's may be too old for the resolver.
    pythons = [each for each in (supported_pythons(root, fix.manifest), ("",)) if each]
    groups = [_read_group(group, fix, root) for group in fix.installed_together[:_MAX_GROUPS]]
    together = [[Setting(each, *group) for group in groups] for each in pythons]
    return [*(together if groups else ()), *([Setting(each)] for each in pythons)]


def _read_group(group: Sequence[str], fix: Fix, root: Path) -> tuple[Others, Others]:
    """The other files of the group, before the fix and after it."""
    before: dict[bool, list[str]] = {True: [], False: []}
    after: dict[bool, list[str]] = {True: [], False: []}
    for name in group:
        is_source = name.endswith(".in") and f"{name.removesuffix('.in')}.txt" in group
        # What was compiled from a source is installed, and not the source.
        if name == fix.manifest or is_source or not name.endswith((".txt", ".in")):
            continue
        try:
            text = tree.read(tree.resolve_file(root, name))
        except CannotFix:
            continue
        before[_is_constraints(name)].append(text)
        # Other files that have the package at a vulnerable version have fixes of their own.
        edited = _without_pin(_allow_in_other_file(name, text, fix), fix.package)
        after[_is_constraints(name)].append(edited)
    joined = [Others("\n".join(each[False]), "\n".join(each[True])) for each in (before, after)]
    return joined[0], joined[1]


def _without_pin(text: str, package: str) -> str:
    def keep(line: str) -> str:
        pin = _PIN.match(line)
        return "" if pin and normalize(pin["name"]) == normalize(package) else line

    return _map_logical_lines(text, keep)


def _source(path: Path, fix: Fix) -> tuple[Path | None, str | None]:
    """The source of a compiled file, if it is next to it, and its edited text."""
    source = path.with_suffix(".in")
    if source == path or source.is_symlink() or not source.is_file():
        return None, None
    return source, allow_version(tree.read(source), fix.package, fix.new)


def update_pin(text: str, fix: Fix) -> str:
    is_pinned = False

    def update(line: str) -> str:
        nonlocal is_pinned
        pin = _PIN.match(line)
        if not pin or normalize(pin["name"]) != normalize(fix.package):
            return line
        if not is_same(pin["version"], fix.old):
            return line
        is_pinned = True
        start, end = pin.span("version")
        return replace_hashes(line[:start] + fix.new + line[end:], fix)

    edited = _map_logical_lines(text, update)
    if not is_pinned:
        raise CannotFix(f"{fix.manifest} has no line `{fix.package}=={fix.old}`")
    return edited


def replace_hashes(line: str, fix: Fix) -> str:
    """Replace the hashes, in the same place and layout."""
    old = list(_HASH.finditer(line))
    if not old:
        return line
    if not fix.hashes:
        raise CannotFix(f"the hashes of {fix.package} {fix.new} are not known")
    first, last = old[0], old[-1]
    before = _BEFORE_HASH.search(line, 0, first.start())
    gap = line[first.end() : old[1].start()] if len(old) > 1 else before[0] if before else " "
    new = gap.join(f"--hash={digest}" for digest in sorted(fix.hashes))
    return line[: first.start()] + new + line[last.end() :]


def allow_version(text: str, package: str, version: str, *, keeps_pins: bool = False) -> str:
    """Raise each requirement of the package that excludes the version."""

    def update(line: str) -> str:
        match = _SPECIFIER.match(line)
        if not match or normalize(match["name"]) != normalize(package):
            return line
        if allows(match["specifier"], version) or (keeps_pins and _PIN.match(line)):
            return line
        new = raise_specifier(match["specifier"], version)
        start, end = match.span("specifier")
        return line if new is None else line[:start] + new + line[end:]

    return _map_logical_lines(text, update)


def _map_logical_lines(text: str, change: Callable[[str], str]) -> str:
    """A line that ends in a backslash continues in the next one."""
    lines: list[str] = []
    continues = False
    for physical in _PHYSICAL.findall(text):
        if continues:
            lines[-1] += physical
        else:
            lines.append(physical)
        continues = physical.rstrip("\r\n").endswith("\\") and not physical.lstrip().startswith("#")
    return "".join(change(line) for line in lines)
