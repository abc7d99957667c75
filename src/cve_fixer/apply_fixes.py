"""Applies the fixes of one manifest one by one: a fix that fails does not affect the others."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cve_fixer import tree
from cve_fixer.model import CannotFix, Fix, Outcome


class LockEditor(Protocol):
    """Applies fixes to one lock file."""

    def move(self, fix: Fix) -> Outcome: ...

    def write(self) -> None: ...


def fix_each(fixes: list[Fix], apply_fix: Callable[[Fix], Outcome]) -> Outcome:
    outcome = Outcome()
    for fix in fixes:
        try:
            outcome.add(apply_fix(fix))
        except CannotFix as error:
            outcome.fail([fix], str(error))
    return outcome


def fix_lock_file(fixes: list[Fix], open_editor: Callable[[Fix, Path], LockEditor]) -> Outcome:
    """`open_editor` gets the first fix and a temporary directory for package managers."""
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        try:
            editor = open_editor(fixes[0], Path(name).resolve())
        except CannotFix as error:
            outcome = Outcome()
            outcome.fail(fixes, str(error))
            return outcome
        outcome = fix_each(fixes, editor.move)
        if outcome.fixed:
            editor.write()
    return outcome


def fix_manifest_text(
    fixes: list[Fix], root: Path, allow_version: Callable[[str, str, str], str]
) -> Outcome:
    """`allow_version` edits a manifest's text so that it allows a package's version."""

    def apply_fix(fix: Fix) -> Outcome:
        path = tree.resolve_file(root, fix.manifest)
        text = tree.read(path)
        edited = allow_version(text, fix.package, fix.new)
        if edited == text:
            raise CannotFix(f"{fix.manifest} does not pin `{fix.package}`")
        tree.write(path, edited)
        return Outcome(fixed=[fix])

    return fix_each(fixes, apply_fix)
