"""Updates one package in poetry.lock by running Poetry in a copy with metadata only."""

import re
import tempfile
from pathlib import Path

from cve_fixer import lock_blocks, tree
from cve_fixer.apply_fixes import fix_each
from cve_fixer.lock_blocks import Table
from cve_fixer.markdown import code, escape
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.python import poetry_without_builds, pyproject
from cve_fixer.python.versions import normalize
from cve_fixer.run_tool import find_tool, run_tool

_FORMAT = re.compile(r'^lock-version = "(\d+)\.(\d+)"', re.MULTILINE)
_SOURCE = re.compile(
    rf'\n+\[package\.source\]\ntype = "legacy"\nurl = "[^"]*"\n'
    rf'reference = "{poetry_without_builds.SOURCE}"(?=\n|$)'
)


def apply(fixes: list[Fix], root: Path) -> Outcome:
    return fix_each(fixes, lambda fix: _fix(fix, root))


def _fix(fix: Fix, root: Path) -> Outcome:
    lock_path = tree.resolve_file(root, fix.manifest)
    project_name = lock_path.with_name("pyproject.toml").relative_to(root).as_posix()
    project_path = tree.resolve_file(root, project_name)
    before, project = tree.read(lock_path), tree.read(project_path)
    if _format(before) < (2, 0):
        raise CannotFix(f"{fix.manifest} has a format older than Poetry 1.3: run `poetry lock`")
    edited = pyproject.allow_version(project, fix.package, fix.new)
    after = merge(before, _lock(root, lock_path, edited, fix))
    outcome = Outcome(fixed=[fix])
    outcome.changes += lock_blocks.describe_other_changes(before, after, normalize(fix.package))
    if edited != project:
        name = code(project_path.relative_to(root).as_posix())
        outcome.changes.append(f"{name} excluded {escape(fix.new)} and now allows it.")
        tree.write(project_path, edited)
    tree.write(lock_path, tree.with_line_endings_of(before, after))
    return outcome


def _lock(root: Path, lock_path: Path, project: str, fix: Fix) -> str:
    package = normalize(fix.package)
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        copy = Path(name).resolve() / "tree"
        tree.copy_files(root, [lock_path, *_local_pyprojects(lock_path)], copy)
        directory = (copy / lock_path.relative_to(root)).parent
        tree.write(directory / "pyproject.toml", project)
        _run_poetry(directory, fix)
        new = tree.read(directory / "poetry.lock")
    if fix.new not in lock_blocks.versions_of(new, package):
        raise CannotFix(f"Poetry did not move {fix.package} to {fix.new}")
    return new


def _local_pyprojects(lock_path: Path) -> list[Path]:
    """The pyproject.toml of packages that come from a directory."""
    packages = lock_blocks.read_lock(tree.read(lock_path)).get("package", [])
    sources = [entry.get("source", {}) for entry in packages]
    paths = [str(source.get("url")) for source in sources if source.get("type") == "directory"]
    return [lock_path.parent / path / "pyproject.toml" for path in paths]


def _run_poetry(directory: Path, fix: Fix) -> None:
    find_tool("poetry")
    run_tool(
        *("poetry", "update", "--lock", "--no-interaction", "--no-ansi", "--no-plugins"),
        normalize(fix.package),
        directory=directory,
        script=poetry_without_builds.__file__,
        environment={
            poetry_without_builds.REGISTRY: fix.registry,
            poetry_without_builds.PACKAGE: normalize(fix.package),
            poetry_without_builds.VERSION: fix.new,
        },
    )


def merge(before: str, new: str) -> str:
    old, new_lock = lock_blocks.split(before), lock_blocks.split(new)
    has_groups = _format(before) >= (2, 1)

    def relevant(table: Table) -> Table:
        ignored = {"files", "source", "description", "category"}
        ignored |= set() if has_groups else {"groups", "markers"}
        return {key: value for key, value in table.items() if key not in ignored}

    def adapt(block: str, _: Table) -> str:
        block = _SOURCE.sub("", block)
        if has_groups:
            return block
        return lock_blocks.remove_key(lock_blocks.remove_key(block, "groups"), "markers")

    blocks = lock_blocks.merge_blocks(old, new_lock, relevant=relevant, adapt=adapt)
    # Contains the hash of pyproject.toml, which an earlier fix may have changed.
    version = 'lock-version = "{}.{}"'.format(*_format(before))
    tail = _FORMAT.sub(version, new_lock.tail)
    return lock_blocks.join_blocks(old.head, blocks, tail)


def _format(lock: str) -> tuple[int, int]:
    match = _FORMAT.search(lock)
    return (int(match[1]), int(match[2])) if match else (0, 0)
