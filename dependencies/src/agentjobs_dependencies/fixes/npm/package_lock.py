"""Updates one package in package-lock.json or npm-shrinkwrap.json by running npm in a copy.

npm works on format 3 whatever the file's format. The difference that npm makes is then applied to
the old text, so that nothing else changes.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import json_text, tree
from agentjobs_dependencies.fixes.apply_fixes import fix_lock_file
from agentjobs_dependencies.fixes.markdown import code, describe_other_changes
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.npm import package_json, project
from agentjobs_dependencies.fixes.npm import tree as npm_tree
from agentjobs_dependencies.fixes.npm.addresses import match_addresses
from agentjobs_dependencies.fixes.npm.project import NpmProject
from agentjobs_dependencies.fixes.npm.tree import Requirement
from agentjobs_dependencies.versions.npm import allows, pin_exactly, raise_range

Lock = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _State:
    """The lock file in format 3 and the package.json files after the fixes so far."""

    lock: Lock
    manifests: dict[str, str]

    @property
    def packages(self) -> dict[str, Any]:
        packages: dict[str, Any] = self.lock["packages"]
        return packages


def apply(fixes: list[Fix], root: Path) -> Outcome:
    return fix_lock_file(fixes, lambda first, copy: _Editor(first, root, copy))


class _Editor:
    """Applies fixes to one lock file, one by one."""

    def __init__(self, first: Fix, root: Path, copy: Path) -> None:
        self._path, self._text = tree.open_file(root, first.manifest)
        lock = json_text.read_object(self._text, first.manifest)
        self._format = _read_format(lock)
        self._project = NpmProject(root, self._path.parent, copy, first.registry)
        self._project.omits_addresses = '"resolved": "http' not in self._text
        manifests = self._project.manifests(npm_tree.members(lock))
        self._before = self._now = _State(self._lock(lock, manifests), manifests)

    def move(self, fix: Fix) -> Outcome:
        packages = self._now.packages
        copies = npm_tree.find_copies(packages, fix.package)
        paths = {path for path, entry in copies.items() if _is_movable(entry, fix)}
        if not paths:
            raise CannotFix(_why_nothing_changed(copies, fix))
        requirements = npm_tree.find_requirements(packages, copies)
        resolved = self._resolve(requirements, paths, fix)
        outcome = Outcome(fixed=[fix])
        ours, theirs = _split_excluding(
            [requirement for requirement in requirements if requirement.resolved_path in paths],
            fix.new,
        )
        manifests = self._raise_ranges(ours, fix, outcome)
        manifests, has_overrides = self._raise_overrides(manifests, fix, outcome)
        after = None if theirs and not has_overrides else self._verify(resolved, manifests, fix)
        if after is None and theirs:
            manifests = self._add_overrides(manifests, theirs, fix, outcome)
            after = self._verify(resolved, manifests, fix)
        if after is None:
            raise CannotFix(f"npm does not keep {fix.package} at {fix.new}")
        outcome.changes += describe_other_changes(
            npm_tree.versions(packages), npm_tree.versions(after.packages), fix.package
        )
        self._now = after
        return outcome

    def _resolve(self, requirements: list[Requirement], paths: set[str], fix: Fix) -> Lock:
        """The lock file that npm writes if every requirement is exactly this version."""
        lock, manifests = deepcopy(self._now.lock), project.strip_manifests(self._now.manifests)
        for requirement in requirements:
            version = (
                fix.new
                if requirement.resolved_path in paths
                else lock["packages"][requirement.resolved_path]["version"]
            )
            pinned = pin_exactly(requirement.spec, version)
            lock["packages"][requirement.requirer][requirement.section][requirement.name] = pinned
            if requirement.requirer in manifests:
                manifests[requirement.requirer][requirement.section][requirement.name] = pinned
        if "overrides" in manifests[""]:
            overrides = manifests[""]["overrides"]
            manifests[""]["overrides"] = package_json.remove_rules(overrides, fix.package)
        resolved = self._project.lock(lock, manifests)
        for requirement in requirements:
            package = resolved["packages"].get(requirement.requirer, {})
            section = package.get(requirement.section, {})
            if requirement.name in section:
                section[requirement.name] = requirement.spec
        return resolved

    def _verify(self, lock: Lock, manifests: dict[str, str], fix: Fix) -> _State | None:
        """None if npm, run with the real requirements, changes a copy back."""
        state = _State(self._lock(lock, manifests), manifests)
        expected, actual = (
            {entry.get("version") for entry in npm_tree.find_copies(packages, fix.package).values()}
            for packages in (lock["packages"], state.packages)
        )
        return state if expected == actual and fix.new in actual else None

    def _raise_ranges(self, ours: list[Requirement], fix: Fix, outcome: Outcome) -> dict[str, str]:
        manifests = dict(self._now.manifests)
        for requirement in ours:
            if requirement.requirer in manifests:
                text, place = (
                    manifests[requirement.requirer],
                    code(self._project.name(requirement.requirer)),
                )
                manifests[requirement.requirer] = package_json.raise_requirement(
                    text, requirement.name, fix.new
                )
                outcome.changes.append(f"{place} excluded {fix.new} and now allows it.")
        return manifests

    def _raise_overrides(
        self, manifests: dict[str, str], fix: Fix, outcome: Outcome
    ) -> tuple[dict[str, str], bool]:
        """Raise existing overrides that keep the old version."""
        text = manifests[""]
        rules = list(
            package_json.override_rules(package_json.read(text).get("overrides"), fix.package)
        )
        kept_back = [
            (path, spec)
            for path, spec in rules
            if allows(spec, fix.old) and allows(spec, fix.new) is False
        ]
        for path, spec in kept_back:
            text = json_text.set_value(text, ("overrides", *path), raise_range(spec, fix.new))
        if kept_back:
            outcome.changes.append(
                f"The override of {code(fix.package)} in {code(self._project.name(''))} kept it "
                f"at {fix.old} and now allows {fix.new}."
            )
        return {**manifests, "": text}, bool(rules)

    def _add_overrides(
        self, manifests: dict[str, str], theirs: list[Requirement], fix: Fix, outcome: Outcome
    ) -> dict[str, str]:
        text, place = manifests[""], self._project.name("")
        requirements = {
            (self._parent_name(requirement), requirement.name): requirement
            for requirement in theirs
        }
        for (parent, name), requirement in sorted(requirements.items()):
            version = pin_exactly(requirement.spec, fix.new)
            text = package_json.add_override(text, parent, name, version)
            project.describe_override(
                *(outcome, f"the override of {code(name)}", parent, f"{code(name)} {fix.new}"),
                *(place, "npm install --package-lock-only"),
            )
        return {**manifests, "": text}

    def _parent_name(self, requirement: Requirement) -> str:
        """The parent's name, with its version if the lock file has several."""
        packages = self._now.packages
        others = npm_tree.find_copies(
            packages, npm_tree.read_name(requirement.requirer, packages[requirement.requirer])
        )
        version = packages[requirement.requirer].get("version")
        is_alone = all(entry.get("version") == version for entry in others.values())
        return requirement.parent if is_alone else f"{requirement.parent}@{version}"

    def _lock(self, lock: Lock, manifests: dict[str, str], lock_format: int = 3) -> Lock:
        return self._project.lock(lock, project.strip_manifests(manifests), lock_format)

    def write(self) -> None:
        before, now = (self._in_own_format(state) for state in (self._before, self._now))
        edited = json_text.patch(self._text, before, match_style(self._text, now))
        tree.write(self._path, edited)
        self._project.write(self._now.manifests, self._before.manifests)

    def _in_own_format(self, state: _State) -> Lock:
        if self._format >= 3:
            return state.lock
        return self._lock(state.lock, state.manifests, self._format)


def _read_format(lock: Lock) -> int:
    lock_format = lock.get("lockfileVersion", 1)
    if lock_format not in (1, 2, 3):
        raise CannotFix(f"the lock file has an unknown format: {lock_format!r}")
    return int(lock_format)


def _is_movable(entry: Mapping[str, Any], fix: Fix) -> bool:
    return entry.get("version") == fix.old and not entry.get("inBundle")


def _why_nothing_changed(copies: Mapping[str, Any], fix: Fix) -> str:
    if any(entry.get("version") == fix.old for entry in copies.values()):
        return f"{fix.package} {fix.old} is bundled inside another package"
    return f"{fix.manifest} does not contain {fix.package} {fix.old}"


def _split_excluding(
    requirements: list[Requirement], version: str
) -> tuple[list[Requirement], list[Requirement]]:
    """Ranges of the project, and those of other packages, which need overrides."""
    excluding = [
        requirement for requirement in requirements if allows(requirement.spec, version) is False
    ]
    ours = [requirement for requirement in excluding if requirement.is_ours]
    return ours, [requirement for requirement in excluding if not requirement.is_ours]


def match_style(text: str, lock: Lock) -> Lock:
    """Use the registry address of the text's other packages instead of a mirror's, and omit fields
    that older releases of npm do not write."""
    omitted = {key for key in ("license",) if f'"{key}":' not in text}
    match = match_addresses(text)

    def adapt(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: adapt(inner) for key, inner in value.items() if key not in omitted}
        return match(value) if isinstance(value, str) else value

    result: Lock = adapt(lock)
    return result
