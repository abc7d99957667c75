"""Proves a fix with the package manager of the project, which resolves, installs or builds it."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from agentjobs_dependencies.fixes.fix import FIXERS
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_worker.agents.cve_fixer_support import find_fixer_tools
from tests.support.fixer_project import TOOLS_PATH
from tests.support.vulnerable_projects import UV

# Gets a clone of the proposed commit and the fixes. Raises an error if the tool rejects the clone.
Proof = Callable[[Path, Sequence[Fix]], None]


def file_kind(ecosystem: str, manifest: str) -> str:
    """The pattern of files that are fixed in the same way, such as `go.mod` or `*.txt`."""
    name = PurePosixPath(manifest).name
    kinds = (kind for each, kind, _ in FIXERS if each == ecosystem and fnmatchcase(name, kind))
    return next(kinds, name)


def run_command(directory: Path, *command: str, **environment: str) -> str:
    """Return the standard output. Raises AssertionError with the last lines if it fails."""
    result = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": TOOLS_PATH, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    output = f"{result.stdout}{result.stderr}".splitlines()
    assert result.returncode == 0, "\n".join([" ".join(command), *output[-15:]])
    return result.stdout


def prove_each(tree: Path, fixes: Sequence[Fix]) -> None:
    """Prove every project that has fixes by itself."""
    projects: dict[tuple[str, Path], list[Fix]] = {}
    for fix in fixes:
        kind = file_kind(fix.ecosystem, fix.manifest)
        directory = (tree / fix.manifest).parent
        project = maven_root(directory) if kind == "*pom.xml" else directory
        projects.setdefault((kind, project), []).append(fix)
    for (kind, project), same in projects.items():
        assert kind in PROOFS, f"PROOFS has no proof for {kind}"
        PROOFS[kind](project, same)


def prove_go(module: Path, fixes: Sequence[Fix]) -> None:
    """The module builds with its files as they are, and they are as tidy as before the fix."""
    go(module, "build", "./...")
    selected = go(module, "list", "-mod=readonly", "-m", "all").splitlines()
    assert not [fix for fix in fixes if f"{fix.package} v{fix.old}" in selected]
    untidy = _changes_of_tidy(module)
    if untidy:
        run_command(module, "git", "checkout", "--quiet", "HEAD~1")
        assert _changes_of_tidy(module), untidy


def _changes_of_tidy(module: Path) -> str:
    go(module, "mod", "tidy")
    changes = run_command(module, "git", "diff")
    run_command(module, "git", "checkout", "--quiet", ".")
    return changes


def go(directory: Path, *arguments: str) -> str:
    return run_command(directory, "go", *arguments, GOFLAGS="", GOTOOLCHAIN="local")


def prove_cargo(package: Path, fixes: Sequence[Fix]) -> None:
    """Cargo downloads what the lock file has, and does not have to change it."""
    metadata = json.loads(cargo(package, "metadata", "--locked", "--format-version=1"))
    locked = {(each["name"], each["version"]) for each in metadata["packages"]}
    assert not [fix for fix in fixes if (fix.package, fix.old) in locked]
    cargo(package, "fetch", "--locked")


def cargo(directory: Path, *arguments: str) -> str:
    (program,) = find_fixer_tools().commands["cargo"]
    rustc = str(Path(program).with_name("rustc"))
    return run_command(directory, program, *arguments, RUSTC=rustc, RUSTC_WRAPPER="")


def prove_maven(project: Path, fixes: Sequence[Fix]) -> None:
    """Maven compiles all modules of the project, and resolves them without the old versions."""
    _run_maven(project, fixes, "test-compile")


def prove_maven_dependencies(project: Path, fixes: Sequence[Fix]) -> None:
    """For projects whose build needs more than their dependencies."""
    _run_maven(project, fixes, "dependency:resolve")


def _run_maven(project: Path, fixes: Sequence[Fix], goal: str) -> None:
    output = run_command(project, "mvn", "--batch-mode", "-ntp", goal, "dependency:tree")
    for fix in fixes:
        assert f"{fix.package}:jar:{fix.new}" in output, output
        assert f"{fix.package}:jar:{fix.old}:" not in output, output


def maven_root(module: Path) -> Path:
    while (module.parent / "pom.xml").is_file():
        module = module.parent
    return module


def prove_npm(package: Path, _fixes: Sequence[Fix]) -> None:
    run_command(package, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def prove_pnpm(package: Path, _fixes: Sequence[Fix]) -> None:
    run_command(package, "pnpm", "install", "--frozen-lockfile", "--ignore-scripts")


def prove_requirements(directory: Path, fixes: Sequence[Fix]) -> None:
    """uv resolves all requirements files of the directory that were fixed, one by one."""
    for name in {PurePosixPath(fix.manifest).name for fix in fixes}:
        run_command(directory, str(UV), "pip", "compile", "--quiet", "--output-file=-", name)


# By kind of file; the directory is that of the file.
PROOFS: Mapping[str, Proof] = {
    "go.mod": prove_go,
    "Cargo.lock": prove_cargo,
    "*pom.xml": prove_maven,
    "package-lock.json": prove_npm,
    "pnpm-lock.yaml": prove_pnpm,
    "*.txt": prove_requirements,
}
