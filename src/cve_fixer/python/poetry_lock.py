"""poetry.lock: Poetry itself moves one package, in a copy that holds nothing but metadata."""

import re
import tempfile
from pathlib import Path

from cve_fixer import lock_blocks, tree
from cve_fixer.lock_blocks import Table
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.python import poetry_without_builds, pyproject
from cve_fixer.python.versions import normalized
from cve_fixer.run_tool import find_tool, run_tool
from cve_fixer.text import code, plain

_FORMAT = re.compile(r'^lock-version = "(\d+)\.(\d+)"', re.MULTILINE)
_SOURCE = re.compile(
    rf'\n+\[package\.source\]\ntype = "legacy"\nurl = "[^"]*"\n'
    rf'reference = "{poetry_without_builds.SOURCE}"(?=\n|$)'
)


def fix(fixes: list[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    for wanted in fixes:
        try:
            outcome.add(_fix(wanted, root))
        except CannotFix as error:
            outcome.fail([wanted], str(error))
    return outcome


def _fix(wanted: Fix, root: Path) -> Outcome:
    lock_path = tree.file_in(root, wanted.manifest)
    beside = lock_path.with_name("pyproject.toml").relative_to(root).as_posix()
    project_path = tree.file_in(root, beside)
    before, project = tree.read(lock_path), tree.read(project_path)
    if _format(before) < (2, 0):
        raise CannotFix(f"{wanted.manifest} has a format that Poetry 1.2 left behind: lock it anew")
    edited = pyproject.admitting(project, wanted.package, wanted.new)
    after = merge(before, _locked(root, lock_path, edited, wanted))
    outcome = Outcome(made=[wanted])
    outcome.changes += lock_blocks.also_moved(before, after, normalized(wanted.package))
    if edited != project:
        name = code(project_path.relative_to(root).as_posix())
        outcome.changes.append(f"{name} excluded {plain(wanted.new)} and now admits it.")
        tree.write(project_path, edited)
    tree.write(lock_path, tree.with_line_ends_of(before, after))
    return outcome


def _locked(root: Path, lock_path: Path, project: str, wanted: Fix) -> str:
    package = normalized(wanted.package)
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        copy = Path(name).resolve() / "tree"
        tree.copy_files(root, [lock_path, *_pyprojects_beside(lock_path)], copy)
        directory = (copy / lock_path.relative_to(root)).parent
        tree.write(directory / "pyproject.toml", project)
        _run_poetry(directory, wanted)
        new = tree.read(directory / "poetry.lock")
    if wanted.new not in lock_blocks.versions_of(new, package):
        raise CannotFix(f"Poetry did not move {wanted.package} to {wanted.new}")
    return new


def _pyprojects_beside(lock_path: Path) -> list[Path]:
    """Of the packages that the lock file has from a directory."""
    packages = lock_blocks.read_lock(tree.read(lock_path)).get("package", [])
    sources = [entry.get("source", {}) for entry in packages]
    places = [str(source.get("url")) for source in sources if source.get("type") == "directory"]
    return [lock_path.parent / place / "pyproject.toml" for place in places]


def _run_poetry(directory: Path, wanted: Fix) -> None:
    find_tool("poetry")
    run_tool(
        *("poetry", "update", "--lock", "--no-interaction", "--no-ansi", "--no-plugins"),
        normalized(wanted.package),
        directory=directory,
        through=poetry_without_builds.__file__,
        environment={
            poetry_without_builds.REGISTRY: wanted.registry,
            poetry_without_builds.PACKAGE: normalized(wanted.package),
            poetry_without_builds.VERSION: wanted.new,
        },
    )


def merge(before: str, new: str) -> str:
    old, made = lock_blocks.split(before), lock_blocks.split(new)
    has_groups = _format(before) >= (2, 1)

    def facts(table: Table) -> Table:
        ignored = {"files", "source", "description", "category"}
        ignored |= set() if has_groups else {"groups", "markers"}
        return {key: value for key, value in table.items() if key not in ignored}

    def adapt(block: str, _: Table) -> str:
        block = _SOURCE.sub("", block)
        if has_groups:
            return block
        return lock_blocks.without_key(lock_blocks.without_key(block, "groups"), "markers")

    blocks = lock_blocks.merged_blocks(old, made, facts=facts, adapt=adapt)
    # The hash is that of pyproject.toml, which an earlier fix may have changed too.
    version = 'lock-version = "{}.{}"'.format(*_format(before))
    tail = _FORMAT.sub(version, made.tail)
    return lock_blocks.joined(old.head, blocks, tail)


def _format(lock: str) -> tuple[int, int]:
    found = _FORMAT.search(lock)
    return (int(found[1]), int(found[2])) if found else (0, 0)
