"""Applies the fixes of one manifest one by one: a fix that fails does not affect the others."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.formats.text import UnreadableManifest


class LockEditor(Protocol):
    """Applies fixes to one lock file."""

    def move(self, fix: Fix) -> Outcome: ...

    def write(self) -> None: ...


def fix_each(fixes: list[Fix], apply_fix: Callable[[Fix], Outcome]) -> Outcome:
    outcome = Outcome()
    for fix in fixes:
        try:
            outcome.add(apply_fix(fix))
        except (CannotFix, UnreadableManifest) as error:
            outcome.fail([fix], str(error))
    return outcome


def one_by_one(fix_one: Callable[[Fix, Path], Outcome]) -> Callable[[list[Fix], Path], Outcome]:
    """Adapts the function of a module whose fixes do not depend on each other."""
    return lambda fixes, root: fix_each(fixes, lambda fix: fix_one(fix, root))


def fix_lock_file(fixes: list[Fix], open_editor: Callable[[Fix, Path], LockEditor]) -> Outcome:
    """`open_editor` gets the first fix and a temporary directory for package managers."""
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        try:
            editor = open_editor(fixes[0], Path(name).resolve())
        except (CannotFix, UnreadableManifest) as error:
            outcome = Outcome()
            outcome.fail(fixes, str(error))
            return outcome
        outcome = fix_each(fixes, editor.move)
        if outcome.fixed:
            editor.write()
    return outcome
