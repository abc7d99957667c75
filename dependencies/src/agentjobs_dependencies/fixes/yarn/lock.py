"""Updates one package in yarn.lock by running yarn in a copy.

yarn first adds the new version under an alias. The ranges that got the old version then get the
alias's entry, and yarn checks and writes the result.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agentjobs_dependencies.fixes import json_text, tree
from agentjobs_dependencies.fixes.apply_fixes import fix_lock_file
from agentjobs_dependencies.fixes.markdown import code, describe_other_changes
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.npm import package_json, project
from agentjobs_dependencies.fixes.npm.addresses import match_addresses
from agentjobs_dependencies.fixes.npm.project import NpmProject
from agentjobs_dependencies.fixes.pnpm.catalogs import (
    parse_catalog,
    range_in_catalog,
    set_range_in_catalog,
)
from agentjobs_dependencies.fixes.yarn import text as yarn_text
from agentjobs_dependencies.fixes.yarn.project import (
    SETTINGS,
    YarnProject,
    find_release,
    workspace_members,
)
from agentjobs_dependencies.formats.npm.yarn_lock import (
    Descriptor,
    YarnEntry,
    plain_range,
    read_entries,
)
from agentjobs_dependencies.versions.npm import allows, raise_range

_ALIAS = "agentjobs-cve-fixer"
_TARGET = re.compile(r"(?:^|/)((?:@[^/@]+/)?[^/@*]+)(?:@[^/]*)?$")


@dataclass(frozen=True, slots=True)
class _State:
    lock: str
    settings: str
    manifests: dict[str, str]

    @property
    def resolutions(self) -> dict[str, str]:
        rules = package_json.read(self.manifests[""]).get("resolutions")
        pairs = rules.items() if isinstance(rules, dict) else ()
        return {key: value for key, value in pairs if isinstance(value, str)}

    def set_resolution(self, key: str, version: str) -> "_State":
        text = json_text.set_value(self.manifests[""], ("resolutions", key), version)
        return replace(self, manifests={**self.manifests, "": text})


def apply(fixes: list[Fix], root: Path) -> Outcome:
    return fix_lock_file(fixes, lambda first, copy: _Editor(first, root, copy))


class _Editor:
    """Applies fixes to one lock file, one by one."""

    def __init__(self, first: Fix, root: Path, copy: Path) -> None:
        self._path, self._text = tree.open_file(root, first.manifest)
        lock = self._text.replace("\r\n", "\n")
        files = NpmProject(root, self._path.parent, copy, first.registry)
        self._project = YarnProject(files, find_release(lock))
        manifests = files.manifests(self._members(lock))
        self._before = _State(lock, self._project.settings_text(), manifests)
        self._now = replace(self._before, lock=self._lock(self._before))
        self._unproven = list(self._why_unproven(first.manifest))

    def _members(self, lock: str) -> list[str]:
        if not self._project.is_first:
            entries = read_entries(lock)
            return [entry.directory for entry in entries if entry.directory not in (None, ".")]
        root = package_json.read(self._project.files.manifests(())[""])
        return workspace_members(self._path.parent, root.get("workspaces"))

    def _why_unproven(self, manifest: str) -> Iterator[str]:
        if self._now.lock != self._before.lock:
            yield (
                f"yarn {self._project.release} changes {code(manifest)} even without this update, "
                "so it was not up to date: run `yarn install`."
            )
        if name := self._project.committed_installation():
            yield f"{code(name)} is in the repository and not updated: run `yarn install`."

    def move(self, fix: Fix) -> Outcome:
        now = self._now
        entries = list(read_entries(now.lock))
        old = [entry for entry in entries if (entry.name, entry.version) == (fix.package, fix.old)]
        if not old:
            raise CannotFix(f"{fix.manifest} does not contain {fix.package} {fix.old}")
        if not all(entry.is_published for entry in old):
            raise CannotFix(f"{fix.package} {fix.old} is patched or not from the registry")
        outcome = Outcome(fixed=[fix], unproven=self._unproven)
        descriptors = {descriptor for entry in old for descriptor in entry.descriptors}
        excluded = {
            descriptor for descriptor in descriptors if allows(descriptor[1], fix.new) is False
        }
        after, raised = self._raise_ranges(now, excluded, fix, outcome)
        after, raised_rules = self._raise_resolutions(after, fix, outcome)
        after = self._add_resolutions(after, entries, excluded, fix, outcome)
        alias = f"npm:{fix.package}@{fix.new}"
        served = descriptors - excluded | raised | raised_rules | {(fix.package, fix.new)}
        lock = yarn_text.reassign(
            self._lock(now, {_ALIAS: alias}), (_ALIAS, alias), served, fix.package, fix.old
        )
        lock = self._lock(replace(after, lock=lock))
        versions = {version for name, version in yarn_text.packages(lock) if name == fix.package}
        if fix.old in versions or fix.new not in versions:
            raise CannotFix(f"yarn does not keep {fix.package} at {fix.new}")
        outcome.changes += describe_other_changes(
            yarn_text.packages(now.lock), yarn_text.packages(lock), fix.package
        )
        self._now = replace(after, lock=lock)
        return outcome

    def _raise_ranges(
        self, state: _State, excluded: set[Descriptor], fix: Fix, outcome: Outcome
    ) -> tuple[_State, set[Descriptor]]:
        """Raise the project's ranges that exclude the new version; also return the new ranges."""
        manifests, settings, raised = dict(state.manifests), state.settings, set()
        edited: dict[str, None] = {}
        for member, name, section, required in _requirements(state.manifests):
            catalog = parse_catalog(required)
            in_catalog = catalog and range_in_catalog(settings, catalog, name, SETTINGS)
            spec = in_catalog or required
            if (name, plain_range(spec)) not in excluded:
                continue
            new = raise_spec(spec, fix.new)
            raised.add((name, plain_range(new)))
            if catalog is not None:
                settings = set_range_in_catalog(settings, catalog, name, new, SETTINGS)
                edited[self._project.files.file_name(SETTINGS)] = None
            else:
                manifests[member] = json_text.set_value(manifests[member], (section, name), new)
                edited[self._project.files.name(member)] = None
        outcome.changes += [
            f"{code(name)} excluded {fix.new} and now allows it." for name in edited
        ]
        return replace(state, manifests=manifests, settings=settings), raised

    def _raise_resolutions(
        self, state: _State, fix: Fix, outcome: Outcome
    ) -> tuple[_State, set[Descriptor]]:
        """Raise existing `resolutions` that keep the old version; also return the new ranges."""
        raised = set()
        for key, spec in state.resolutions.items():
            plain = plain_range(spec)
            if (
                resolution_target(key) != fix.package
                or not allows(plain, fix.old)
                or allows(plain, fix.new)
            ):
                continue
            new = raise_spec(spec, fix.new)
            raised.add((fix.package, plain_range(new)))
            state = state.set_resolution(key, new)
            outcome.changes.append(
                f"The resolution {code(key)} in {code(self._project.files.name(''))} kept it at "
                f"{fix.old} and now allows {fix.new}."
            )
        return state, raised

    def _add_resolutions(
        self,
        state: _State,
        entries: list[YarnEntry],
        excluded: set[Descriptor],
        fix: Fix,
        outcome: Outcome,
    ) -> _State:
        """Add `resolutions` for packages that exclude the new version."""
        if any(
            re.fullmatch(r"(?:\*\*/)?" + re.escape(fix.package), key) for key in state.resolutions
        ):
            return state
        parents = {
            (entry.name, entry.version, name)
            for entry in entries
            if entry.directory is None
            for name, spec in entry.requires
            if (name, spec) in excluded
        }
        place = self._project.files.name("")
        for parent, version, name in sorted(parents):
            key = self._resolution_key(parent, version, name, entries)
            state = state.set_resolution(key, fix.new)
            project.describe_override(
                *(outcome, f"the resolution {code(key)}", parent, f"{code(name)} {fix.new}"),
                *(place, "yarn install"),
            )
        return state

    def _resolution_key(
        self, parent: str, version: str, name: str, entries: list[YarnEntry]
    ) -> str:
        """With the parent's version if the lock file has several, which yarn 1 does not know."""
        if self._project.is_first:
            return f"**/{parent}/{name}"
        versions = {entry.version for entry in entries if entry.name == parent}
        return f"{parent}/{name}" if len(versions) < 2 else f"{parent}@npm:{version}/{name}"

    def _lock(self, state: _State, more: Mapping[str, str] | None = None) -> str:
        manifests = project.strip_manifests(state.manifests)
        if more:
            root = manifests[""]
            root["dependencies"] = {**(root.get("dependencies") or {}), **more}
        return self._project.lock(state.lock, state.settings, manifests)

    def write(self) -> None:
        lock = match_addresses(self._text)(self._now.lock)
        tree.write(self._path, tree.match_line_endings(self._text, lock))
        self._project.files.write(self._now.manifests, self._before.manifests)
        if self._now.settings != self._before.settings:
            self._project.write_settings(self._now.settings)


def raise_spec(spec: str, version: str) -> str:
    """Raise a range and keep its protocol."""
    plain = plain_range(spec)
    return spec[: len(spec) - len(plain)] + raise_range(plain, version)


def _requirements(manifests: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    for member, text in manifests.items():
        for name, (section, spec) in package_json.requirements(package_json.read(text)).items():
            yield member, name, section, spec


def resolution_target(key: str) -> str:
    match = _TARGET.search(key)
    return match[1] if match else ""
