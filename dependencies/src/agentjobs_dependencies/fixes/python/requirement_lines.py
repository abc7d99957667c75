"""Edits the text of requirements files: `name==old` and its hashes, and requirements that exclude a
version. Changes no other byte."""

import re
from collections.abc import Callable

from agentjobs_dependencies.fixes.model import CannotFix, Fix
from agentjobs_dependencies.fixes.python.requirement_text import PIN
from agentjobs_dependencies.versions.pypi import allows, is_same, normalize_name, raise_specifier

_PHYSICAL = re.compile(r"[^\n]*\n|[^\n]+")
# A byte order mark at the start of a file is not part of the name.
_SPECIFIER = re.compile(
    r"\ufeff?[ \t]*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)[ \t]*(?:\[[^\]\n]*\])?[ \t]*"
    r"(?P<specifier>[=<>~!][^;#\\\r\n]*?)(?=[ \t]*(?:[;#\\\r\n]|$))"
)
_MAJOR = re.compile(r"\d+(?![\d!])")
_HASH = re.compile(r"--hash[= ][A-Za-z0-9]+:[A-Za-z0-9]+")
_BEFORE_HASH = re.compile(r"[ \t]*(?:\\\r?\n[ \t]*)?$")


def update_pin(text: str, fix: Fix) -> str:
    is_pinned = False

    def update(line: str) -> str:
        nonlocal is_pinned
        pin = PIN.match(line)
        if not pin or normalize_name(pin["name"]) != normalize_name(fix.package):
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
        if not match or normalize_name(match["name"]) != normalize_name(package):
            return line
        if allows(match["specifier"], version) or (keeps_pins and PIN.match(line)):
            return line
        new = raise_specifier(match["specifier"], version)
        start, end = match.span("specifier")
        return line if new is None else line[:start] + new + line[end:]

    return _map_logical_lines(text, update)


def without_pin(text: str, package: str) -> str:
    def keep(line: str) -> str:
        pin = PIN.match(line)
        return "" if pin and normalize_name(pin["name"]) == normalize_name(package) else line

    return _map_logical_lines(text, keep)


def relax_pins(text: str, *, keep: str) -> str:
    """Allow later versions with the same major version, except of `keep`."""

    def relax(line: str) -> str:
        pin = PIN.match(line)
        major = _MAJOR.match(pin["version"]) if pin else None
        if not pin or not major or normalize_name(pin["name"]) == normalize_name(keep):
            return line
        requirement = line[: pin.start("version")].rstrip(" \t=")
        bounds = f">={pin['version']},<{int(major[0]) + 1}"
        return f"{requirement}{bounds}{line[pin.end('version') :]}"

    return _map_logical_lines(text, relax)


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
