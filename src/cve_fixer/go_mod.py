"""Edits the version of one `require` in go.mod. Does not run go, which the sandbox does not have.

Leaves go.sum unchanged: old lines do no harm, and new ones come from the checksum database only.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from cve_fixer import tree
from cve_fixer.markdown import code
from cve_fixer.model import CannotFix, Fix, Outcome

_LINE = re.compile(
    r"(?P<start>[ \t]*(?P<word>require[ \t]+)?\"?(?P<module>[^\s\"()]+)\"?[ \t]+)"
    r"(?P<version>v[^\s/]+)(?=[ \t]*(?://[^\n]*)?\r?\n?$)"
)
_OPENING = re.compile(r"[ \t]*([a-z]+)[ \t]*\(")
_REPLACE = r"^[ \t]*(?:replace[ \t]+)?{module}(?:[ \t]+v\S+)?[ \t]*=>[ \t]*(?P<target>\S+)"


def apply(fixes: list[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    for fix in fixes:
        try:
            path = tree.resolve_file(root, fix.manifest)
            tree.write(path, update_require(tree.read(path), fix))
            outcome.fixed.append(fix)
            outcome.changes += _remaining_steps(path, fix)
        except CannotFix as error:
            outcome.fail([fix], str(error))
    return outcome


def update_require(text: str, fix: Fix) -> str:
    replaced = re.search(_REPLACE.format(module=re.escape(fix.package)), text, re.MULTILINE)
    if replaced:
        target = replaced["target"]
        raise CannotFix(f"{fix.manifest} replaces {fix.package} with {target}: change that instead")
    edited = "".join(_edited_lines(text, fix))
    if edited == text:
        requirement = f"{fix.package} {_add_v(fix.old)}"
        raise CannotFix(f"{fix.manifest} has no line `require {requirement}`")
    return edited


def _edited_lines(text: str, fix: Fix) -> Iterator[str]:
    block = ""
    for line in text.splitlines(keepends=True):
        if opening := _OPENING.match(line):
            block = opening[1]
        elif line.lstrip().startswith(")"):
            block = ""
        match = _LINE.match(line)
        is_require = match is not None and (match["word"] or block == "require")
        if match and is_require and _matches(match, fix):
            start, end = match.span("version")
            line = line[:start] + _add_v(fix.new) + line[end:]  # noqa: PLW2901 - yields the line, edited or not
        yield line


def _matches(match: re.Match[str], fix: Fix) -> bool:
    return match["module"] == fix.package and _strip_version(match["version"]) == _strip_version(
        fix.old
    )


def _remaining_steps(path: Path, fix: Fix) -> list[str]:
    if not path.with_name("go.sum").is_file():
        return []
    missing = f"`go.sum` next to {code(fix.manifest)} does not list the new version yet"
    return [f"{missing}: run `go mod tidy` on this branch before you merge."]


def _add_v(version: str) -> str:
    return f"v{_strip_version(version)}"


def _strip_version(version: str) -> str:
    """As in advisories, which use neither prefix nor suffix."""
    return version.removeprefix("v").removesuffix("+incompatible")
