"""Reads the job file, applies its fixes and writes the report. Chooses the module per manifest."""

import importlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from agentjobs_dependencies.fixes import report
from agentjobs_dependencies.fixes.candidates import choose_candidate
from agentjobs_dependencies.fixes.markdown import one_line
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome, read_fixes

# The service opens a draft if this file is beside the report.
DRAFT_FILE = "draft.md"

# The first match counts. Each module has `apply(fixes, root) -> Outcome`.
FIXERS: tuple[tuple[str, str, str], ...] = (
    ("PyPI", "uv.lock", "python.uv_lock"),
    ("PyPI", "poetry.lock", "python.poetry_lock"),
    ("PyPI", "Pipfile.lock", "python.pipfile_lock"),
    ("PyPI", "pyproject.toml", "python.project_pins"),
    ("PyPI", "*.txt", "python.requirements"),
    ("PyPI", "*.in", "python.requirements"),
    ("npm", "package-lock.json", "npm.package_lock"),
    ("npm", "npm-shrinkwrap.json", "npm.package_lock"),
    ("npm", "pnpm-lock.yaml", "pnpm.lock"),
    ("npm", "yarn.lock", "yarn.lock"),
    ("npm", "package.json", "npm.manifest_pins"),
    ("Go", "go.mod", "go.go_mod"),
    ("crates.io", "Cargo.lock", "cargo_lock"),
    ("Maven", "*pom.xml", "pom"),
)


def main() -> int:
    try:
        fixes = read_job()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"the job file cannot be used: {error!r}")
        return 1
    if not fixes:
        print("the job file lists no fixes: nothing to do")
        return 1
    outcome = fix_all(fixes, Path.cwd())
    write_report(outcome)
    print(f"fixed: {len(outcome.fixed)}, not fixed: {len(outcome.failed)}")
    if not outcome.fixed:
        print(f"nothing could be fixed: {one_line(outcome.failed[0].reason)}")
        return 1
    return 0


def read_job() -> list[Fix]:
    path = Path(os.environ.get("AGENTJOBS_JOB", "job.json"))
    return read_fixes(json.loads(path.read_text(encoding="utf-8")))


def fix_all(fixes: Iterable[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    suited = []
    for fix in fixes:
        try:
            suited.append(choose_candidate(fix, root))
        except CannotFix as error:
            print(f"not fixed: {fix.package}: {error}")
            outcome.fail([fix], str(error))
        except Exception as error:  # noqa: BLE001 - an error in one manifest must not affect the others
            outcome.fail([fix], f"what {fix.manifest} supports could not be read: {error!r}")
    for (ecosystem, manifest), group in _by_manifest(suited):
        print(f"{manifest}: {', '.join(f'{fix.package} {fix.old} → {fix.new}' for fix in group)}")
        result = _fix_manifest(ecosystem, manifest, group, root)
        for failure in result.failed:
            print(f"not fixed: {failure.fix.package}: {failure.reason}")
        outcome.add(result)
    return outcome


def fixer_for(ecosystem: str, manifest: str) -> str | None:
    name = PurePosixPath(manifest).name
    modules = (
        module
        for fixer_ecosystem, pattern, module in FIXERS
        if fixer_ecosystem == ecosystem and fnmatchcase(name, pattern)
    )
    return next(modules, None)


def can_fix(ecosystem: str, manifest: str) -> bool:
    return fixer_for(ecosystem, manifest) is not None


def _fix_manifest(ecosystem: str, manifest: str, fixes: list[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    module = fixer_for(ecosystem, manifest)
    if module is None:
        outcome.fail(fixes, f"this agent cannot edit files like {manifest} yet")
        return outcome
    try:
        fixed: Outcome = importlib.import_module(f".{module}", __package__).apply(fixes, root)
        return fixed
    except Exception as error:  # noqa: BLE001 - an error in one manifest must not affect the others
        outcome.fail(fixes, f"{manifest} could not be edited: {error!r}")
        return outcome


def _by_manifest(fixes: Iterable[Fix]) -> Iterator[tuple[tuple[str, str], list[Fix]]]:
    groups: dict[tuple[str, str], list[Fix]] = defaultdict(list)
    for fix in fixes:
        groups[fix.ecosystem, fix.manifest].append(fix)
    # Requirements files may be exported from uv.lock.
    yield from sorted(groups.items(), key=lambda group: not group[0][1].endswith("uv.lock"))


def write_report(outcome: Outcome) -> None:
    name = os.environ.get("AGENTJOBS_REPORT")
    if not name:
        return
    path = Path(name)
    path.write_text(report.report(outcome), encoding="utf-8", errors="replace")
    if outcome.unproven:
        reasons = report.draft_reasons(outcome)
        path.with_name(DRAFT_FILE).write_text(reasons, encoding="utf-8", errors="replace")
