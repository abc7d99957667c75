"""Updates modules in go.mod and go.sum: with the go command, or by editing if there is none."""

from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.go import checksums, toolchain
from agentjobs_dependencies.fixes.go.requirements import (
    add_v,
    is_at_least,
    read_go_mod,
    read_requirements,
    strip_version,
)
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.run_tool import has_tool
from agentjobs_dependencies.formats.golang import read_lines


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    path = tree.resolve_file(root, fix.manifest)
    sums = path.with_name("go.sum")
    if sums.is_symlink() or sums.exists():
        # It must not link outside either.
        tree.resolve_file(root, sums.relative_to(root).as_posix())
    return _apply(fix, path)


def _apply(fix: Fix, path: Path) -> Outcome:
    text = tree.read(path)
    if _is_already_fixed(text, fix):
        return Outcome(fixed=[fix])
    edited = update_require(text, fix)
    reason = "the worker has no go command"
    if has_tool("go"):
        try:
            return toolchain.update(fix, path.parent)
        except toolchain.NeedsNewerGo as error:
            raise CannotFix(str(error)) from None
        except CannotFix as error:
            reason = str(error)
    outcome = Outcome(fixed=[fix])
    tree.write(path, edited)
    if (path.parent / "vendor" / "modules.txt").is_file():
        outcome.unproven.append(
            f"vendor next to {fix.manifest} has the old version of {fix.package} ({reason}): run "
            "go mod vendor on this branch."
        )
    if path.with_name("go.sum").is_file():
        try:
            checksums.add_module(fix, edited, path.with_name("go.sum"))
        except CannotFix as error:
            outcome.unproven.append(
                f"go.sum next to {fix.manifest} does not list what {fix.package} {fix.new} needs "
                f"({reason}; {error}): run go mod tidy on this branch."
            )
    return outcome


def _is_already_fixed(text: str, fix: Fix) -> bool:
    """An earlier fix may have required the new version."""
    return is_at_least(read_requirements(text).get(fix.package, ""), fix.new)


def update_require(text: str, fix: Fix) -> str:
    for (path, _), (target, _) in read_go_mod(text).replaced.items():
        if path == fix.package:
            raise CannotFix(f"{fix.manifest} replaces {path} with {target}: change that instead")
    lines = text.splitlines(keepends=True)
    for line in read_lines(text):
        if line.verb == "require" and _matches(line.words, fix):
            before, module, after = lines[line.number].partition(fix.package)
            edited = after.replace(line.words[1], add_v(fix.new), 1)
            lines[line.number] = before + module + edited
    edited = "".join(lines)
    if edited == text:
        requirement = f"{fix.package} {add_v(fix.old)}"
        raise CannotFix(f"{fix.manifest} has no line `require {requirement}`")
    return edited


def _matches(words: list[str], fix: Fix) -> bool:
    is_module = len(words) == 2 and words[0] == fix.package
    return is_module and strip_version(words[1]) == strip_version(fix.old)
