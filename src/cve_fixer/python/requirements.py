"""Pins in requirements files: changes `name==old` and its hashes, and no other byte.

Whether the set of pins still fits together is for `pip_compile` to find out.
"""

import re
from collections.abc import Callable
from pathlib import Path

from cve_fixer import tree
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.python import pip_compile
from cve_fixer.python.versions import admits, is_same, normalized, raised
from cve_fixer.text import code, plain

_PHYSICAL = re.compile(r"[^\n]*\n|[^\n]+")
# A mark at the very beginning of a file is none of the name.
_START = (
    r"(?P<start>\ufeff?[ \t]*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)[ \t]*(?:\[[^\]\n]*\])?[ \t]*)"
)
_PIN = re.compile(rf"{_START[:-1]}===?[ \t]*)(?P<version>[^\s;,#\\]+)")
_SPECIFIER = re.compile(rf"{_START}(?P<specifier>[=<>~!][^;#\\\r\n]*?)(?=[ \t]*(?:[;#\\\r\n]|$))")
_HASH = re.compile(r"--hash[= ][A-Za-z0-9]+:[A-Za-z0-9]+")
_BEFORE_HASH = re.compile(r"[ \t]*(?:\\\r?\n[ \t]*)?$")


def fix(fixes: list[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    for wanted in fixes:
        try:
            outcome.add(_fix(wanted, root))
        except CannotFix as error:
            outcome.fail([wanted], str(error))
    return outcome


def _fix(wanted: Fix, root: Path) -> Outcome:
    path = tree.file_in(root, wanted.manifest)
    text = tree.read(path)
    edited = with_new_pin(text, wanted)
    source, source_text = _source(path, wanted)
    checked = pip_compile.settle(text, edited, source_text, wanted)
    tree.write(path, checked.text)
    changes = list(checked.changes)
    if source is not None and source_text is not None and source_text != tree.read(source):
        tree.write(source, source_text)
        name = code(source.relative_to(root).as_posix())
        changes.append(f"{name} asked for an older version and now admits {plain(wanted.new)}.")
    return Outcome(made=[wanted], changes=changes)


def _source(path: Path, wanted: Fix) -> tuple[Path | None, str | None]:
    """The file that a compiled one is made from, if it lies beside it, and its text to be."""
    source = path.with_suffix(".in")
    if source == path or source.is_symlink() or not source.is_file():
        return None, None
    return source, admitting(tree.read(source), wanted.package, wanted.new)


def with_new_pin(text: str, wanted: Fix) -> str:
    found = False

    def renew(line: str) -> str:
        nonlocal found
        pin = _PIN.match(line)
        if not pin or normalized(pin["name"]) != normalized(wanted.package):
            return line
        if not is_same(pin["version"], wanted.old):
            return line
        found = True
        start, end = pin.span("version")
        return with_hashes(line[:start] + wanted.new + line[end:], wanted)

    edited = _each_logical_line(text, renew)
    if not found:
        raise CannotFix(f"{wanted.manifest} has no line `{wanted.package}=={wanted.old}`")
    return edited


def with_hashes(line: str, wanted: Fix) -> str:
    """The new version's hashes in the place, the order and the layout of the old one's."""
    old = list(_HASH.finditer(line))
    if not old:
        return line
    if not wanted.hashes:
        raise CannotFix(f"the hashes of {wanted.package} {wanted.new} are not known")
    first, last = old[0], old[-1]
    before = _BEFORE_HASH.search(line, 0, first.start())
    gap = line[first.end() : old[1].start()] if len(old) > 1 else before[0] if before else " "
    new = gap.join(f"--hash={digest}" for digest in sorted(wanted.hashes))
    return line[: first.start()] + new + line[last.end() :]


def admitting(text: str, package: str, version: str) -> str:
    """With each requirement of the package raised that would exclude the version."""

    def renew(line: str) -> str:
        found = _SPECIFIER.match(line)
        if not found or normalized(found["name"]) != normalized(package):
            return line
        if admits(found["specifier"], version):
            return line
        new = raised(found["specifier"], version)
        start, end = found.span("specifier")
        return line if new is None else line[:start] + new + line[end:]

    return _each_logical_line(text, renew)


def _each_logical_line(text: str, change: Callable[[str], str]) -> str:
    """A line that ends in a backslash goes on in the next one."""
    lines: list[str] = []
    is_open = False
    for physical in _PHYSICAL.findall(text):
        if is_open:
            lines[-1] += physical
        else:
            lines.append(physical)
        is_open = physical.rstrip("\r\n").endswith("\\") and not physical.lstrip().startswith("#")
    return "".join(change(line) for line in lines)
