"""uv.lock: uv itself moves one package, in a copy that holds nothing but metadata.

uv's `--no-build` would not do: it still builds the project's own members, and refuses a project
that has any package without a wheel, though its lock file knows what that package asks for.
"""

import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from cve_fixer import lock_blocks, tree
from cve_fixer.lock_blocks import Table
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.python import pyproject
from cve_fixer.python.claimed_python import make_python
from cve_fixer.python.static_metadata import (
    add_known_metadata,
    make_static,
    with_static_versions,
    without_known_metadata,
)
from cve_fixer.python.versions import normalized
from cve_fixer.run_tool import run_tool
from cve_fixer.text import code, plain

_NO_SOLUTION = "No solution found"


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
    before = tree.read(lock_path)
    project = lock_path.parent
    edits = _constraints(project, before, wanted)
    outcome = Outcome(made=[wanted])
    outcome.changes += [
        f"{code(path.relative_to(root).as_posix())} excluded {plain(wanted.new)} and now admits it."
        for path in edits
    ]
    try:
        after = _locked(root, lock_path, edits, wanted)
    except CannotFix as error:
        if _NO_SOLUTION not in str(error):
            raise
        edits = _with_override(project, edits, wanted)
        after = _locked(root, lock_path, edits, wanted)
        _tell_of_override(outcome, wanted, (project / "pyproject.toml").relative_to(root))
    outcome.changes += lock_blocks.also_moved(before, after, normalized(wanted.package))
    for path, text in edits.items():
        tree.write(path, text)
    tree.write(lock_path, tree.with_line_ends_of(before, after))
    return outcome


def _constraints(project: Path, lock: str, wanted: Fix) -> dict[Path, str]:
    """The members' pyproject.toml that exclude the new version, as they shall be."""
    edits = {}
    for directory in _members(lock):
        path = (project / directory / "pyproject.toml").resolve()
        if path.is_file() and path.is_relative_to(project.resolve()):
            text = tree.read(path)
            edited = pyproject.admitting(text, wanted.package, wanted.new)
            if edited != text:
                edits[project / path.relative_to(project.resolve())] = edited
    return edits


def _members(lock: str) -> list[str]:
    sources = [entry.get("source", {}) for entry in lock_blocks.read_lock(lock).get("package", [])]
    kinds = ("editable", "virtual", "directory")
    return sorted({".", *(source[kind] for source in sources for kind in kinds if kind in source)})


def _with_override(project: Path, edits: dict[Path, str], wanted: Fix) -> dict[Path, str]:
    path = project / "pyproject.toml"
    if not path.is_file():
        raise CannotFix(f"what asks for {wanted.package} excludes {wanted.new}")
    # A range, so that the override does not itself keep the next fix away.
    major = re.match(r"\d+", wanted.new)
    below = f",<{int(major[0]) + 1}" if major else ""
    requirement = f"{wanted.package}>={wanted.new}{below}"
    text = edits.get(path) or tree.read(path)
    return {**edits, path: pyproject.with_override(text, requirement)}


def _tell_of_override(outcome: Outcome, wanted: Fix, path: Path) -> None:
    asking = code(wanted.parents[-1]) if wanted.parents else "what asks for it"
    package, place = code(wanted.package), code(path.as_posix())
    outcome.changes.append(
        f"{asking} excludes this version of {package}, so {place} overrides it with uv's "
        "`override-dependencies`: run the tests before you merge."
    )
    outcome.undo.append(
        f"Once {asking} admits {plain(wanted.new)}, remove {package} from `override-dependencies` "
        f"in {place} and run `uv lock`."
    )


def _locked(root: Path, lock_path: Path, edits: dict[Path, str], wanted: Fix) -> str:
    """The lock file as uv writes it for the edited project, in the old one's words."""
    before = tree.read(lock_path).replace("\r\n", "\n")
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        copy = Path(name).resolve() / "tree"
        members = [lock_path.parent / member / "pyproject.toml" for member in _members(before)]
        tree.copy_files(root, [*members, lock_path.with_name("uv.toml")], copy)
        for path, text in edits.items():
            tree.write(copy / path.relative_to(root), text)
        for path in copy.rglob("pyproject.toml"):
            make_static(path)
        directory = (copy / lock_path.relative_to(root)).parent
        has_known = add_known_metadata(directory / "pyproject.toml", before)
        registry = _registry_of(before, wanted)
        tree.write(directory / "uv.lock", _moved(before, registry, wanted.registry))
        run_uv = _Uv(directory, Path(name), wanted.registry)
        run_uv("--upgrade-package", f"{wanted.package}=={wanted.new}")
        new = _moved(tree.read(directory / "uv.lock"), wanted.registry, registry)
        new, known = without_known_metadata(new) if has_known else (new, "")
        if wanted.new not in lock_blocks.versions_of(new, normalized(wanted.package)):
            raise CannotFix(f"uv did not move {wanted.package} to {wanted.new}")
        after = merge(before, new)
        checked = with_static_versions(after, known)
        tree.write(directory / "uv.lock", _moved(checked, registry, wanted.registry))
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
        self._options = ["--python", make_python(str(requires or ""), scratch)]
        if registry and not _has_default_index(settings):
            self._options += ["--default-index", registry]

    def __call__(self, *options: str) -> None:
        run_tool(
            *("uv", "lock", *self._options, *options),
            directory=self._directory,
            environment={"UV_PYTHON_DOWNLOADS": "never"},
        )


def merge(before: str, new: str, *, keeps_known: bool = True) -> str:
    """`keeps_known`: packages that did not move stay as the old file has them."""
    old, made = lock_blocks.split(before), lock_blocks.split(new)
    strange = [key for key in ("upload-time", "size") if f"{key} = " not in before]

    def facts(table: Table) -> Table:
        return _facts(table) if keeps_known else {"is-new": id(table)}

    def adapt(block: str, known: Table) -> str:
        for key in strange if keeps_known else ():
            block = re.sub(rf", {key} = (?:\"[^\"]*\"|\d+)", "", block)
        is_dynamic = bool(known) and "version" not in known
        return lock_blocks.without_key(block, "version") if is_dynamic else block

    blocks = lock_blocks.merged_blocks(old, made, facts=facts, adapt=adapt)
    is_same_head = keeps_known and _head_facts(old.head) == _head_facts(made.head)
    return lock_blocks.joined(old.head if is_same_head else made.head, blocks, made.tail)


def _facts(table: Table) -> Table:
    """What of a package concerns a resolution: its files are the same as long as its version is."""
    ignored = {"sdist", "wheels"}
    if "registry" not in table.get("source", {}):
        ignored.add("version")
    return {key: value for key, value in table.items() if key not in ignored}


def _head_facts(head: str) -> Table:
    facts = lock_blocks.read_lock(head)
    facts.pop("revision", None)
    return facts


def _registry_of(lock: str, wanted: Fix) -> str:
    """Where the lock file has the package from: it may know the registry by another address."""
    for entry in lock_blocks.read_lock(lock).get("package", []):
        registry = entry.get("source", {}).get("registry")
        if entry.get("name") == normalized(wanted.package) and isinstance(registry, str):
            return registry
    return wanted.registry


def _moved(lock: str, here: str, there: str) -> str:
    return lock.replace(f'registry = "{here}"', f'registry = "{there}"')


def _has_default_index(settings: dict[str, Any]) -> bool:
    own = settings.get("tool", {}).get("uv", {})
    indexes = own.get("index", [])
    return "index-url" in own or any(index.get("default") is True for index in indexes)
