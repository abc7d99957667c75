"""pnpm-lock.yaml: pnpm itself moves one package, in a copy.

It is made to by overrides for all who ask, which are then taken back. What pnpm changed is done to
the old text, so that nothing else moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cve_fixer import tree, yaml_text
from cve_fixer.apply_fixes import in_a_copy
from cve_fixer.collateral_changes import came_along
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.npm import package_json, project
from cve_fixer.npm.project import NpmProject
from cve_fixer.npm.ranges import admits, exactly
from cve_fixer.pnpm import catalogs
from cve_fixer.pnpm import overrides as pnpm_overrides
from cve_fixer.pnpm import text as pnpm_text
from cve_fixer.pnpm.overrides import Settings
from cve_fixer.pnpm.project import WORKSPACE, PnpmProject, members
from cve_fixer.pnpm.text import Direct, Parent
from cve_fixer.text import code


@dataclass(frozen=True, slots=True)
class _State:
    """The lock file as today's pnpm writes it, pnpm-workspace.yaml, package.json files by place."""

    lock: str
    workspace: str
    manifests: dict[str, str]

    @property
    def settings(self) -> Settings:
        return Settings(self.workspace, self.manifests[""])


def fix(fixes: list[Fix], root: Path) -> Outcome:
    return in_a_copy(fixes, lambda first, copy: _Editing(first, root, copy))


class _Editing:
    """One lock file while its fixes are made, one after the other."""

    def __init__(self, first: Fix, root: Path, copy: Path) -> None:
        self._path = tree.file_in(root, first.manifest)
        self._text = tree.read(self._path)
        self._head, lock = pnpm_text.main_document(self._text.replace("\r\n", "\n"))
        pnpm_text.check_format(lock, first.manifest)
        self._project = PnpmProject(NpmProject(root, self._path.parent, copy, first.registry))
        importers = [yaml_text.unquoted(key) for key, _ in pnpm_text.items(lock, "importers")]
        manifests = self._project.files.manifests(["", *members(importers)])
        if "" not in manifests:
            raise CannotFix(f"no package.json lies beside {first.manifest}")
        self._old = lock
        state = _State(lock, self._project.workspace_text(), manifests)
        self._before = self._now = replace(state, lock=self._locked(state))

    def move(self, wanted: Fix) -> Outcome:
        now = self._now
        directs = pnpm_text.directs(now.lock, wanted.package, wanted.old)
        parents = pnpm_text.parents(now.lock, wanted.package, wanted.old)
        if wanted.old not in pnpm_text.versions_of(now.lock, wanted.package):
            raise CannotFix(f"{wanted.manifest} does not hold {wanted.package} {wanted.old}")
        outcome = Outcome(made=[wanted])
        resolved = self._resolved(directs, parents, wanted)
        after = self._raise_ranges(replace(now, lock=resolved), directs, wanted, outcome)
        after = self._overruled(after, parents, wanted, outcome)
        self._now = self._settled(after, directs, wanted)
        outcome.changes += came_along(
            pnpm_text.packages(now.lock), pnpm_text.packages(self._now.lock), wanted.package
        )
        return outcome

    def _resolved(self, directs: list[Direct], parents: list[Parent], wanted: Fix) -> str:
        """The lock file after pnpm was made to believe that everyone asks for just this version."""
        manifests = project.harmless(self._now.manifests)
        for direct in directs:
            asked = manifests[members([direct.importer])[0]]
            section, spec = package_json.asked(asked)[direct.name]
            asked[section][direct.name] = exactly(spec, wanted.new)
        held = pnpm_overrides.keeping(
            self._now.settings.overrides, wanted.package, wanted.old, wanted.new
        )
        rules = {
            **dict.fromkeys(held, wanted.new),
            **{f"{parent.id}>{parent.name}": wanted.new for parent in parents},
        }
        settings = self._copied_settings(self._now, self._now.settings.overrides | rules)
        lock = self._project.lock(self._now.lock, settings, manifests)
        found = pnpm_text.versions_of(lock, wanted.package)
        if wanted.old in found or wanted.new not in found:
            raise CannotFix(f"pnpm did not move {wanted.package} to {wanted.new}")
        return lock

    def _raise_ranges(
        self, state: _State, directs: list[Direct], wanted: Fix, outcome: Outcome
    ) -> _State:
        manifests, lock, workspace = dict(state.manifests), state.lock, state.workspace
        edited: dict[str, None] = {}
        known = self._now.lock
        for direct in directs:
            member = members([direct.importer])[0]
            text = manifests[member]
            manifests[member] = package_json.admitting(text, direct.name, wanted.new)
            if manifests[member] != text:
                edited[self._project.files.name(member)] = None
            if catalog := catalogs.catalog_of(direct.spec):
                before = workspace
                workspace, lock = catalogs.with_catalog(
                    workspace, lock, known, catalog, direct.name, wanted.new
                )
                known = lock
                if workspace != before:
                    edited[self._project.name(WORKSPACE)] = None
        outcome.changes += [
            f"{code(name)} excluded {wanted.new} and now admits it." for name in edited
        ]
        return replace(state, lock=lock, workspace=workspace, manifests=manifests)

    def _overruled(
        self, state: _State, parents: list[Parent], wanted: Fix, outcome: Outcome
    ) -> _State:
        """With overrides that let the new version in where other packages exclude it."""
        settings = state.settings
        held = pnpm_overrides.keeping(settings.overrides, wanted.package, wanted.old, wanted.new)
        for key, spec in held.items():
            settings = settings.with_override(key, spec)
            outcome.changes.append(
                f"The override {code(key)} in {code(self._project.name(settings.place))} kept it "
                f"at {wanted.old} and now admits {wanted.new}."
            )
        if not pnpm_overrides.rules_everywhere(settings.overrides, wanted.package):
            for parent in self._excluding(parents, wanted):
                key = f"{self._named(parent)}>{parent.name}"
                settings = settings.with_override(key, wanted.new)
                _tell_of_override(outcome, key, parent, wanted, self._project.name(settings.place))
        manifests = {**state.manifests, "": settings.manifest}
        return replace(state, workspace=settings.workspace, manifests=manifests)

    def _named(self, parent: Parent) -> str:
        """With its version where other versions of it must not be meant."""
        is_alone = len(pnpm_text.versions_of(self._now.lock, parent.package)) < 2
        return parent.package if is_alone else parent.id

    def _excluding(self, parents: list[Parent], wanted: Fix) -> list[Parent]:
        found = {}
        for parent in parents:
            spec = self._project.ranges_of(parent.id).get(parent.name)
            # Not from the registry, so nobody says what it asks for.
            if spec is None or admits(spec, wanted.new) is False:
                found[self._named(parent), parent.name] = parent
        return [found[key] for key in sorted(found)]

    def _settled(self, state: _State, directs: list[Direct], wanted: Fix) -> _State:
        """With pnpm's word that this is the lock file of the project as it shall be."""
        specs = {
            (direct.importer, direct.name): package_json.asked(
                package_json.read(state.manifests[members([direct.importer])[0]])
            )[direct.name][1]
            for direct in directs
        }
        lock = pnpm_text.with_specs(
            state.lock, lambda direct: specs.get((direct.importer, direct.name))
        )
        rows = "".join(
            f"  {yaml_text.quoted(key)}: {yaml_text.quoted(value)}\n"
            for key, value in state.settings.overrides.items()
        )
        block = f"overrides:\n{rows}\n" if rows else ""
        lock = self._locked(replace(state, lock=pnpm_text.with_block(lock, "overrides", block)))
        wished, found = (pnpm_text.versions_of(text, wanted.package) for text in (state.lock, lock))
        if wished != found:
            raise CannotFix(f"pnpm does not leave {wanted.package} at {wanted.new}")
        return replace(state, lock=lock)

    def _locked(self, state: _State) -> str:
        settings = self._copied_settings(state, state.settings.overrides)
        return self._project.lock(state.lock, settings, project.harmless(state.manifests))

    def _copied_settings(self, state: _State, overrides: Mapping[str, str]) -> str:
        text = self._project.settings(self._old, state.workspace)
        for key, value in overrides.items():
            text = yaml_text.with_entry(text, "overrides", key, value, name=WORKSPACE)
        return text

    def write(self) -> None:
        lock = self._head + pnpm_text.merged(self._old, self._before.lock, self._now.lock)
        tree.write(self._path, tree.with_line_ends_of(self._text, lock))
        changed = {
            member: text
            for member, text in self._now.manifests.items()
            if text != self._before.manifests[member]
        }
        self._project.files.write(changed)
        if self._now.workspace != self._before.workspace:
            self._project.write_workspace(self._now.workspace)


def _tell_of_override(outcome: Outcome, key: str, parent: Parent, wanted: Fix, place: str) -> None:
    version = f"{code(parent.name)} {wanted.new}"
    outcome.changes.append(
        f"{code(parent.package)} excludes {version}, so the override {code(key)} in {code(place)} "
        "says otherwise: run the tests before you merge."
    )
    outcome.undo.append(
        f"Once {code(parent.package)} admits {version}, remove the override {code(key)} from "
        f"{code(place)} and run `pnpm install --lockfile-only`."
    )
