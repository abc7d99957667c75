"""The fixes of one manifest, one after the other: one that cannot be made leaves the others be."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cve_fixer import tree
from cve_fixer.model import CannotFix, Fix, Outcome


class Editing(Protocol):
    """A lock file while its fixes are made."""

    def move(self, wanted: Fix) -> Outcome: ...

    def write(self) -> None: ...


def in_a_copy(fixes: list[Fix], edit: Callable[[Fix, Path], Editing]) -> Outcome:
    """`edit` gets the first fix and a directory of its own, where package managers may work."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        try:
            editing = edit(fixes[0], Path(name).resolve())
        except CannotFix as error:
            outcome.fail(fixes, str(error))
            return outcome
        for wanted in fixes:
            try:
                outcome.add(editing.move(wanted))
            except CannotFix as error:
                outcome.fail([wanted], str(error))
        if outcome.made:
            editing.write()
    return outcome


def in_its_text(fixes: list[Fix], root: Path, admitting: Callable[[str, str, str], str]) -> Outcome:
    """`admitting` makes a manifest's text admit a package in a version."""
    outcome = Outcome()
    for wanted in fixes:
        try:
            path = tree.file_in(root, wanted.manifest)
            text = tree.read(path)
            edited = admitting(text, wanted.package, wanted.new)
            if edited == text:
                raise CannotFix(f"{wanted.manifest} does not pin `{wanted.package}`")
            tree.write(path, edited)
            outcome.made.append(wanted)
        except CannotFix as error:
            outcome.fail([wanted], str(error))
    return outcome
