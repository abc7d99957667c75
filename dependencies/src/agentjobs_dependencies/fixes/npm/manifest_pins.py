"""Raises versions in a package.json that no lock file covers, and checks with npm that the project
can still be installed."""

import tempfile
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.npm.package_json import allow_version
from agentjobs_dependencies.fixes.npm.project import NpmProject, strip_manifests
from agentjobs_dependencies.fixes.run_tool import has_tool


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    path, text = tree.open_file(root, fix.manifest)
    edited = allow_version(text, fix.package, fix.new)
    if edited == text:
        raise CannotFix(f"{fix.manifest} does not pin `{fix.package}`")
    outcome = Outcome(fixed=[fix])
    if not has_tool("npm"):
        outcome.unproven.append(f"{fix.manifest} was not resolved: the worker has no npm.")
    elif conflict := _find_conflict(edited, path, fix, root):
        if not _find_conflict(text, path, fix, root):
            raise CannotFix(f"another requirement excludes {fix.package} {fix.new}: {conflict}")
        outcome.unproven.append(
            f"{fix.manifest} could not be resolved, and neither could it before the fix: "
            f"{' '.join(conflict.split())[:300]}"
        )
    tree.write(path, edited)
    return outcome


def _find_conflict(text: str, path: Path, fix: Fix, root: Path) -> str:
    """Why npm cannot resolve the project; empty if it can."""
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        project = NpmProject(root, path.parent, Path(name).resolve(), fix.registry)
        try:
            project.resolve(strip_manifests({"": text}))
        except CannotFix as error:
            return str(error)
    return ""
