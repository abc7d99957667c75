"""go.mod: the version of one `require`. Runs no go: there is none in the sandbox.

go.sum stays as it is: its old lines do no harm, and new ones come only from the checksum database.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from cve_fixer import tree
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.text import code

_LINE = re.compile(
    r"(?P<start>[ \t]*(?P<word>require[ \t]+)?\"?(?P<module>[^\s\"()]+)\"?[ \t]+)"
    r"(?P<version>v[^\s/]+)(?=[ \t]*(?://[^\n]*)?\r?\n?$)"
)
_OPENING = re.compile(r"[ \t]*([a-z]+)[ \t]*\(")
_REPLACE = r"^[ \t]*(?:replace[ \t]+)?{module}(?:[ \t]+v\S+)?[ \t]*=>[ \t]*(?P<target>\S+)"


def fix(fixes: list[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    for wanted in fixes:
        try:
            path = tree.file_in(root, wanted.manifest)
            tree.write(path, with_new_require(tree.read(path), wanted))
            outcome.made.append(wanted)
            outcome.changes += _left_to_do(path, wanted)
        except CannotFix as error:
            outcome.fail([wanted], str(error))
    return outcome


def with_new_require(text: str, wanted: Fix) -> str:
    replaced = re.search(_REPLACE.format(module=re.escape(wanted.package)), text, re.MULTILINE)
    if replaced:
        target = replaced["target"]
        raise CannotFix(f"{wanted.manifest} replaces {wanted.package} by {target}: change that")
    edited = "".join(_edited_lines(text, wanted))
    if edited == text:
        wants = f"{wanted.package} {_with_v(wanted.old)}"
        raise CannotFix(f"{wanted.manifest} has no line `require {wants}`")
    return edited


def _edited_lines(text: str, wanted: Fix) -> Iterator[str]:
    block = ""
    for line in text.splitlines(keepends=True):
        if opening := _OPENING.match(line):
            block = opening[1]
        elif line.lstrip().startswith(")"):
            block = ""
        found = _LINE.match(line)
        is_required = found is not None and (found["word"] or block == "require")
        if found and is_required and _is_it(found, wanted):
            start, end = found.span("version")
            line = line[:start] + _with_v(wanted.new) + line[end:]  # noqa: PLW2901 - or as it was
        yield line


def _is_it(found: re.Match[str], wanted: Fix) -> bool:
    return found["module"] == wanted.package and _bare(found["version"]) == _bare(wanted.old)


def _left_to_do(path: Path, wanted: Fix) -> list[str]:
    if not path.with_name("go.sum").is_file():
        return []
    unknown = f"`go.sum` beside {code(wanted.manifest)} does not know the new version yet"
    return [f"{unknown}: run `go mod tidy` on this branch before you merge."]


def _with_v(version: str) -> str:
    return f"v{_bare(version)}"


def _bare(version: str) -> str:
    """As advisories have it, which know neither of the two."""
    return version.removeprefix("v").removesuffix("+incompatible")
