"""Updates one package in uv.lock by running uv in a copy with metadata only.

uv's `--no-build` is not enough: it still builds the project's own members, and refuses a project
with a package without a wheel, although the lock file has that package's requirements.
"""

import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import lock_blocks, tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.lock_blocks import Table
from agentjobs_dependencies.fixes.markdown import code, describe_other_changes, escape
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.python import pyproject
from agentjobs_dependencies.fixes.python.fake_python import create_python
from agentjobs_dependencies.fixes.python.static_metadata import (
    add_known_metadata,
    add_static_versions,
    make_static,
    remove_known_metadata,
)
from agentjobs_dependencies.fixes.run_tool import run_tool
from agentjobs_dependencies.formats.pypi.lock_entries import read_packages
from agentjobs_dependencies.formats.pypi.uv_lock import project_directory
from agentjobs_dependencies.versions.pypi import normalize_name

# Old versions of uv do not write it.
_EXTRAS = "provides-extras"
_NO_SOLUTION = "No solution found"


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    lock_path, before = tree.open_file(root, fix.manifest)
    project = lock_path.parent
    edits = _constraints(project, before, fix)
    outcome = Outcome(fixed=[fix])
    version = escape(fix.new)
    outcome.changes += [
        f"{code(path.relative_to(root).as_posix())} excluded {version} and now allows it."
        for path in edits
    ]
    try:
        after = _lock(root, lock_path, edits, fix)
    except CannotFix as error:
        if _NO_SOLUTION not in str(error):
            raise
        edits = _add_override(project, edits, fix)
        after = _lock(root, lock_path, edits, fix)
        _describe_override(outcome, fix, (project / "pyproject.toml").relative_to(root))
    outcome.changes += describe_other_changes(
        lock_blocks.packages(before), lock_blocks.packages(after), normalize_name(fix.package)
    )
    for path, text in edits.items():
        tree.write(path, text)
    tree.write(lock_path, tree.match_line_endings(before, after))
    return outcome


def _constraints(project: Path, lock: str, fix: Fix) -> dict[Path, str]:
    """Edited texts of the members' pyproject.toml files that exclude the new version."""
    edits = {}
    for directory in _members(lock):
        path = (project / directory / "pyproject.toml").resolve()
        if path.is_file() and path.is_relative_to(project.resolve()):
            text = tree.read(path)
            edited = pyproject.allow_version(text, fix.package, fix.new)
            if edited != text:
                edits[project / path.relative_to(project.resolve())] = edited
    return edits


def member_pyprojects(lock_path: Path) -> list[Path]:
    return [
        lock_path.parent / member / "pyproject.toml" for member in _members(tree.read(lock_path))
    ]


def _members(lock: str) -> list[str]:
    directories = map(project_directory, read_packages(lock_blocks.read_lock(lock)))
    return sorted({".", *(directory or "." for directory in directories if directory is not None)})


def _add_override(project: Path, edits: dict[Path, str], fix: Fix) -> dict[Path, str]:
    path = project / "pyproject.toml"
    if not path.is_file():
        raise CannotFix(f"another package requires {fix.package} and excludes {fix.new}")
    # A range, so that the override does not block the next fix.
    major = re.match(r"\d+", fix.new)
    upper_bound = f",<{int(major[0]) + 1}" if major else ""
    requirement = f"{fix.package}>={fix.new}{upper_bound}"
    text = edits.get(path) or tree.read(path)
    return {**edits, path: pyproject.add_override(text, requirement)}


def _describe_override(outcome: Outcome, fix: Fix, path: Path) -> None:
    requirer = code(fix.parents[-1]) if fix.parents else "another package"
    package, place = code(fix.package), code(path.as_posix())
    outcome.changes.append(
        f"{requirer} excludes this version of {package}, so {place} overrides it with uv's "
        "`override-dependencies`: run the tests before you merge."
    )
    outcome.undo.append(
        f"Once {requirer} allows {escape(fix.new)}, remove {package} from "
        f"`override-dependencies` in {place} and run `uv lock`."
    )


def _lock(root: Path, lock_path: Path, edits: dict[Path, str], fix: Fix) -> str:
    """The lock file that uv writes for the edited project, in the old one's style."""
    before = tree.read(lock_path).replace("\r\n", "\n")
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        copy = Path(name).resolve() / "tree"
        files = [*member_pyprojects(lock_path), lock_path.with_name("uv.toml")]
        tree.copy_files(root, files, copy)
        for path, text in edits.items():
            tree.write(copy / path.relative_to(root), text)
        for path in copy.rglob("pyproject.toml"):
            make_static(path)
        directory = (copy / lock_path.relative_to(root)).parent
        has_known = add_known_metadata(directory / "pyproject.toml", before)
        registry = _find_registry(before, fix)
        tree.write(directory / "uv.lock", _replace_registry(before, registry, fix.registry))
        run_uv = _Uv(directory, Path(name), fix.registry)
        run_uv("--upgrade-package", f"{fix.package}=={fix.new}")
        new = _replace_registry(tree.read(directory / "uv.lock"), fix.registry, registry)
        new, known = remove_known_metadata(new) if has_known else (new, "")
        if fix.new not in lock_blocks.find_versions(new, normalize_name(fix.package)):
            raise CannotFix(f"uv did not move {fix.package} to {fix.new}")
        # The text of members may be out of date.
        for keeps_members in (True, False):
            after = merge(before, new, keeps_members=keeps_members)
            candidate = add_static_versions(after, known)
            tree.write(directory / "uv.lock", _replace_registry(candidate, registry, fix.registry))
            with suppress(CannotFix):
                run_uv("--check")
                return after
    return merge(before, new, keeps_known=False)


class _Uv:
    """`uv lock` in one directory."""

    def __init__(self, directory: Path, scratch: Path, registry: str) -> None:
        settings = pyproject.read_pyproject(tree.read(directory / "pyproject.toml"))
        self._directory = directory
        requires = settings.get("project", {}).get("requires-python")
        self._options = ["--python", create_python(str(requires or ""), scratch)]
        if registry and not _has_default_index(settings):
            self._options += ["--default-index", registry]

    def __call__(self, *options: str) -> None:
        run_tool(
            *("uv", "lock", *self._options, *options),
            directory=self._directory,
            environment={"UV_PYTHON_DOWNLOADS": "never"},
        )


def merge(before: str, new: str, *, keeps_known: bool = True, keeps_members: bool = True) -> str:
    """`keeps_known`: unchanged packages keep the old file's text; `keeps_members`: members too."""
    old, new_lock = lock_blocks.split(before), lock_blocks.split(new)
    omitted = [key for key in ("upload-time", "size") if f"{key} = " not in before]

    def relevant(table: Table) -> Table:
        is_kept = keeps_known and (keeps_members or "registry" in table.get("source", {}))
        return _relevant_fields(table) if is_kept else {"is-new": id(table)}

    def adapt(block: str, known: Table) -> str:
        for key in omitted if keeps_known else ():
            block = re.sub(rf", {key} = (?:\"[^\"]*\"|\d+)", "", block)
        if keeps_known and _EXTRAS not in before:
            block = lock_blocks.remove_key(block, _EXTRAS)
        is_dynamic = bool(known) and "version" not in known
        return lock_blocks.remove_key(block, "version") if is_dynamic else block

    blocks = lock_blocks.merge_blocks(old, new_lock, relevant=relevant, adapt=adapt)
    is_same_head = keeps_known and _relevant_head(old.head) == _relevant_head(new_lock.head)
    return lock_blocks.join_blocks(
        old.head if is_same_head else new_lock.head, blocks, new_lock.tail
    )


def _relevant_fields(table: Table) -> Table:
    """The fields that affect a resolution; files only depend on the version.

    So do the markers of a published package's requirements, which versions of uv simplify in
    different ways.
    """
    is_published = "registry" in table.get("source", {})
    ignored = {"sdist", "wheels", *(() if is_published else ("version",))}
    relevant = {key: value for key, value in table.items() if key not in ignored}
    if "metadata" in table:
        relevant["metadata"] = {**table["metadata"], _EXTRAS: None}
    if is_published:
        relevant["dependencies"] = _without_markers(table.get("dependencies", []))
        relevant["optional-dependencies"] = {
            extra: _without_markers(dependencies)
            for extra, dependencies in table.get("optional-dependencies", {}).items()
        }
    return relevant


def _without_markers(dependencies: list[Table]) -> list[Table]:
    return [
        {key: value for key, value in dependency.items() if key != "marker"}
        for dependency in dependencies
    ]


def _relevant_head(head: str) -> Table:
    relevant = lock_blocks.read_lock(head)
    relevant.pop("revision", None)
    return relevant


def _find_registry(lock: str, fix: Fix) -> str:
    """The registry of the package in the lock file, which may have another address."""
    for entry in lock_blocks.read_lock(lock).get("package", []):
        registry = entry.get("source", {}).get("registry")
        if entry.get("name") == normalize_name(fix.package) and isinstance(registry, str):
            return registry
    return fix.registry


def _replace_registry(lock: str, old_url: str, new_url: str) -> str:
    return lock.replace(f'registry = "{old_url}"', f'registry = "{new_url}"')


def _has_default_index(settings: dict[str, Any]) -> bool:
    uv_settings = settings.get("tool", {}).get("uv", {})
    indexes = uv_settings.get("index", [])
    return "index-url" in uv_settings or any(index.get("default") is True for index in indexes)
