"""Applies the fixes of one manifest one by one: a fix that fails does not affect the others."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cve_fixer import tree
from cve_fixer.model import CannotFix, Fix, Outcome


class LockEditor(Protocol):
    """Applies fixes to one lock file."""

    def move(self, wanted: Fix) -> Outcome: ...

    def write(self) -> None: ...


def fix_lock_file(fixes: list[Fix], open_editor: Callable[[Fix, Path], LockEditor]) -> Outcome:
    """`open_editor` gets the first fix and a temporary directory for package managers."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        try:
            editor = open_editor(fixes[0], Path(name).resolve())
        except CannotFix as error:
            outcome.fail(fixes, str(error))
            return outcome
        for wanted in fixes:
            try:
                outcome.add(editor.move(wanted))
            except CannotFix as error:
                outcome.fail([wanted], str(error))
        if outcome.fixed:
            editor.write()
    return outcome


def fix_manifest_text(
    fixes: list[Fix], root: Path, allow_version: Callable[[str, str, str], str]
) -> Outcome:
    """`allow_version` edits a manifest's text so that it allows a package's version."""
    outcome = Outcome()
    for wanted in fixes:
        try:
            path = tree.resolve_file(root, wanted.manifest)
            text = tree.read(path)
            edited = allow_version(text, wanted.package, wanted.new)
            if edited == text:
                raise CannotFix(f"{wanted.manifest} does not pin `{wanted.package}`")
            tree.write(path, edited)
            outcome.fixed.append(wanted)
        except CannotFix as error:
            outcome.fail([wanted], str(error))
    return outcome
