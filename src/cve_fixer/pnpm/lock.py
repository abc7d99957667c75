"""Updates one package in pnpm-lock.yaml by running pnpm in a copy.

Temporary overrides force the version. The difference that pnpm makes is then applied to the old
text, so that nothing else changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cve_fixer import tree, yaml_text
from cve_fixer.apply_fixes import fix_lock_file
from cve_fixer.markdown import code, collateral_changes
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.npm import package_json, project
from cve_fixer.npm.project import NpmProject
from cve_fixer.npm.ranges import allows, pin_exactly
from cve_fixer.pnpm import catalogs
from cve_fixer.pnpm import overrides as pnpm_overrides
from cve_fixer.pnpm import text as pnpm_text
from cve_fixer.pnpm.overrides import Settings
from cve_fixer.pnpm.project import WORKSPACE, PnpmProject, members
from cve_fixer.pnpm.text import Direct, Parent


@dataclass(frozen=True, slots=True)
class _State:
    """The lock file as the installed pnpm writes it, pnpm-workspace.yaml and package.json files."""

    lock: str
    workspace: str
    manifests: dict[str, str]

    @property
    def settings(self) -> Settings:
        return Settings(self.workspace, self.manifests[""])


def apply(fixes: list[Fix], root: Path) -> Outcome:
    return fix_lock_file(fixes, lambda first, copy: _Editor(first, root, copy))


class _Editor:
    """Applies fixes to one lock file, one by one."""

    def __init__(self, first: Fix, root: Path, copy: Path) -> None:
        self._path = tree.resolve_file(root, first.manifest)
        self._text = tree.read(self._path)
        self._head, lock = pnpm_text.main_document(self._text.replace("\r\n", "\n"))
        pnpm_text.check_format(lock, first.manifest)
        self._project = PnpmProject(NpmProject(root, self._path.parent, copy, first.registry))
        importers = [yaml_text.unquote(key) for key, _ in pnpm_text.items(lock, "importers")]
        manifests = self._project.files.manifests(["", *members(importers)])
        if "" not in manifests:
            raise CannotFix(f"there is no package.json next to {first.manifest}")
        self._old = lock
        state = _State(lock, self._project.workspace_text(), manifests)
        self._before = self._now = replace(state, lock=self._lock(state))

    def move(self, fix: Fix) -> Outcome:
        now = self._now
        directs = pnpm_text.directs(now.lock, fix.package, fix.old)
        parents = pnpm_text.parents(now.lock, fix.package, fix.old)
        if fix.old not in pnpm_text.versions_of(now.lock, fix.package):
            raise CannotFix(f"{fix.manifest} does not contain {fix.package} {fix.old}")
        outcome = Outcome(fixed=[fix])
        resolved = self._resolve(directs, parents, fix)
        after = self._raise_ranges(replace(now, lock=resolved), directs, fix, outcome)
        after = self._add_overrides(after, parents, fix, outcome)
        self._now = self._verify(after, directs, fix)
        outcome.changes += collateral_changes(
            pnpm_text.packages(now.lock), pnpm_text.packages(self._now.lock), fix.package
        )
        return outcome

    def _resolve(self, directs: list[Direct], parents: list[Parent], fix: Fix) -> str:
        """The lock file that pnpm writes if every requirement is exactly this version."""
        manifests = project.strip_manifests(self._now.manifests)
        for direct in directs:
            requirements = manifests[members([direct.importer])[0]]
            section, spec = package_json.requirements(requirements)[direct.name]
            requirements[section][direct.name] = pin_exactly(spec, fix.new)
        kept_back = pnpm_overrides.raise_keeping(
            self._now.settings.overrides, fix.package, fix.old, fix.new
        )
        rules = {
            **dict.fromkeys(kept_back, fix.new),
            **{f"{parent.id}>{parent.name}": fix.new for parent in parents},
        }
        settings = self._settings_with(self._now, self._now.settings.overrides | rules)
        lock = self._project.lock(self._now.lock, settings, manifests)
        versions = pnpm_text.versions_of(lock, fix.package)
        if fix.old in versions or fix.new not in versions:
            raise CannotFix(f"pnpm did not move {fix.package} to {fix.new}")
        return lock

    def _raise_ranges(
        self, state: _State, directs: list[Direct], fix: Fix, outcome: Outcome
    ) -> _State:
        manifests, lock, workspace = dict(state.manifests), state.lock, state.workspace
        edited: dict[str, None] = {}
        known = self._now.lock
        for direct in directs:
            member = members([direct.importer])[0]
            text = manifests[member]
            manifests[member] = package_json.allow_version(text, direct.name, fix.new)
            if manifests[member] != text:
                edited[self._project.files.name(member)] = None
            if catalog := catalogs.catalog_of(direct.spec):
                before = workspace
                workspace, lock = catalogs.update_catalog(
                    workspace, lock, known, catalog, direct.name, fix.new
                )
                known = lock
                if workspace != before:
                    edited[self._project.name(WORKSPACE)] = None
        outcome.changes += [
            f"{code(name)} excluded {fix.new} and now allows it." for name in edited
        ]
        return replace(state, lock=lock, workspace=workspace, manifests=manifests)

    def _add_overrides(
        self, state: _State, parents: list[Parent], fix: Fix, outcome: Outcome
    ) -> _State:
        """Add overrides for packages that exclude the new version."""
        settings = state.settings
        kept_back = pnpm_overrides.raise_keeping(settings.overrides, fix.package, fix.old, fix.new)
        for key, spec in kept_back.items():
            settings = settings.add_override(key, spec)
            outcome.changes.append(
                f"The override {code(key)} in {code(self._project.name(settings.place))} kept it "
                f"at {fix.old} and now allows {fix.new}."
            )
        if not pnpm_overrides.has_global_rule(settings.overrides, fix.package):
            for parent in self._find_excluding(parents, fix):
                key = f"{self._parent_name(parent)}>{parent.name}"
                settings = settings.add_override(key, fix.new)
                _describe_override(outcome, key, parent, fix, self._project.name(settings.place))
        manifests = {**state.manifests, "": settings.manifest}
        return replace(state, workspace=settings.workspace, manifests=manifests)

    def _parent_name(self, parent: Parent) -> str:
        """The parent's name, with its version if the lock file has several."""
        is_alone = len(pnpm_text.versions_of(self._now.lock, parent.package)) < 2
        return parent.package if is_alone else parent.id

    def _find_excluding(self, parents: list[Parent], fix: Fix) -> list[Parent]:
        versions = {}
        for parent in parents:
            spec = self._project.ranges_of(parent.id).get(parent.name)
            # Packages from elsewhere have unknown requirements.
            if spec is None or allows(spec, fix.new) is False:
                versions[self._parent_name(parent), parent.name] = parent
        return [versions[key] for key in sorted(versions)]

    def _verify(self, state: _State, directs: list[Direct], fix: Fix) -> _State:
        """Check with pnpm that this is the lock file of the edited project."""
        specs = {
            (direct.importer, direct.name): package_json.requirements(
                package_json.read(state.manifests[members([direct.importer])[0]])
            )[direct.name][1]
            for direct in directs
        }
        lock = pnpm_text.replace_specs(
            state.lock, lambda direct: specs.get((direct.importer, direct.name))
        )
        rows = "".join(
            f"  {yaml_text.quote(key)}: {yaml_text.quote(value)}\n"
            for key, value in state.settings.overrides.items()
        )
        block = f"overrides:\n{rows}\n" if rows else ""
        lock = self._lock(replace(state, lock=pnpm_text.replace_block(lock, "overrides", block)))
        expected, versions = (
            pnpm_text.versions_of(text, fix.package) for text in (state.lock, lock)
        )
        if expected != versions:
            raise CannotFix(f"pnpm does not keep {fix.package} at {fix.new}")
        return replace(state, lock=lock)

    def _lock(self, state: _State) -> str:
        settings = self._settings_with(state, state.settings.overrides)
        return self._project.lock(state.lock, settings, project.strip_manifests(state.manifests))

    def _settings_with(self, state: _State, overrides: Mapping[str, str]) -> str:
        text = self._project.settings(self._old, state.workspace)
        for key, value in overrides.items():
            text = yaml_text.set_entry(text, "overrides", key, value, name=WORKSPACE)
        return text

    def write(self) -> None:
        lock = self._head + pnpm_text.merge(self._old, self._before.lock, self._now.lock)
        tree.write(self._path, tree.with_line_endings_of(self._text, lock))
        changed = {
            member: text
            for member, text in self._now.manifests.items()
            if text != self._before.manifests[member]
        }
        self._project.files.write(changed)
        if self._now.workspace != self._before.workspace:
            self._project.write_workspace(self._now.workspace)


def _describe_override(outcome: Outcome, key: str, parent: Parent, fix: Fix, place: str) -> None:
    version = f"{code(parent.name)} {fix.new}"
    outcome.changes.append(
        f"{code(parent.package)} excludes {version}, so the override {code(key)} in {code(place)} "
        "forces it: run the tests before you merge."
    )
    outcome.undo.append(
        f"Once {code(parent.package)} allows {version}, remove the override {code(key)} from "
        f"{code(place)} and run `pnpm install --lockfile-only`."
    )
