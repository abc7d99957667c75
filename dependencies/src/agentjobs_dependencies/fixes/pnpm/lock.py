"""Updates one package in pnpm-lock.yaml by running pnpm in a copy.

Temporary overrides force the version. The difference that pnpm makes is then applied to the old
text, so that nothing else changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import fix_lock_file
from agentjobs_dependencies.fixes.markdown import code, describe_other_changes
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.npm import package_json
from agentjobs_dependencies.fixes.npm.project import NpmProject, describe_override, strip_manifests
from agentjobs_dependencies.fixes.pnpm import catalogs
from agentjobs_dependencies.fixes.pnpm import overrides as pnpm_overrides
from agentjobs_dependencies.fixes.pnpm import text as pnpm_text
from agentjobs_dependencies.fixes.pnpm.overrides import Settings
from agentjobs_dependencies.fixes.pnpm.project import WORKSPACE, PnpmProject, members
from agentjobs_dependencies.fixes.pnpm.release import find_releases
from agentjobs_dependencies.fixes.pnpm.text import Direct, Parent
from agentjobs_dependencies.formats.npm.pnpm_lock import PnpmLock
from agentjobs_dependencies.versions.npm import pin_exactly


@dataclass(frozen=True, slots=True)
class _State:
    """The lock file as the installed pnpm writes it, pnpm-workspace.yaml and package.json files."""

    lock: str
    workspace: str
    manifests: dict[str, str]
    reads_workspace: bool

    @property
    def settings(self) -> Settings:
        return Settings(self.workspace, self.manifests[""], self.reads_workspace)

    def with_settings(self, settings: Settings) -> "_State":
        manifests = {**self.manifests, "": settings.manifest}
        return replace(self, workspace=settings.workspace, manifests=manifests)


def apply(fixes: list[Fix], root: Path) -> Outcome:
    return fix_lock_file(fixes, lambda first, copy: _Editor(first, root, copy))


class _Editor:
    """Applies fixes to one lock file, one by one."""

    def __init__(self, first: Fix, root: Path, copy: Path) -> None:
        self._path, self._text = tree.open_file(root, first.manifest)
        self._head, lock = pnpm_text.main_document(self._text.replace("\r\n", "\n"))
        files = NpmProject(root, self._path.parent, copy, first.registry)
        manifests = files.manifests(members(PnpmLock(lock).importers))
        self._old = lock
        self._project, self._before = self._open(files, manifests)
        self._now = self._before
        self._is_mergeable = pnpm_text.has_same_entries(lock, self._before.lock)
        self._unproven = list(self._why_unproven(first.manifest))

    def _open(self, files: NpmProject, manifests: dict[str, str]) -> tuple[PnpmProject, _State]:
        """With the release of pnpm that writes the lock file as it is, or as similar as possible.

        Releases name entries with peers differently, so changes of one do not fit the other's."""
        opened: list[tuple[PnpmProject, _State]] = []
        package_manager = package_json.read(manifests[""]).get("packageManager")
        lock_format = pnpm_text.lock_format(self._old)
        try:
            for pnpm in find_releases(lock_format, package_manager, files.copy, files.registry):
                project = PnpmProject(files, pnpm)
                state = _State(self._old, project.workspace_text(), manifests, pnpm.reads_workspace)
                before = replace(state, lock=_run_pnpm(project, state))
                opened.append((project, before))
                if before.lock == self._old:
                    return project, before
        except CannotFix:
            if not opened:
                raise
        similar = (
            project for project in opened if pnpm_text.has_same_entries(self._old, project[1].lock)
        )
        return next(similar, opened[0])

    def _why_unproven(self, manifest: str) -> Iterator[str]:
        if not self._is_mergeable:
            yield (
                f"pnpm changes {code(manifest)} even without this update, so it was not up to "
                "date: run `pnpm install`."
            )
        hooks = self._project.files.directory / ".pnpmfile.cjs"
        if hooks.exists():
            yield f"The hooks of {code(hooks.name)} were not run."

    def move(self, fix: Fix) -> Outcome:
        now = self._now
        directs = pnpm_text.directs(now.lock, fix.package, fix.old)
        parents = pnpm_text.parents(now.lock, fix.package, fix.old)
        if fix.old not in pnpm_text.find_versions(now.lock, fix.package):
            raise CannotFix(f"{fix.manifest} does not contain {fix.package} {fix.old}")
        outcome = Outcome(fixed=[fix], unproven=[*self._unproven])
        resolved = self._resolve(directs, parents, fix)
        after = self._raise_ranges(replace(now, lock=resolved), directs, fix, outcome)
        after = self._raise_overrides(after, fix, outcome)
        lock = self._lock(after)
        if excluding := self._find_excluding(lock, parents, fix):
            after = self._add_overrides(after, excluding, fix, outcome)
            lock = self._lock(after)
        expected, versions = (
            pnpm_text.find_versions(text, fix.package) for text in (resolved, lock)
        )
        if expected != versions:
            raise CannotFix(f"pnpm does not keep {fix.package} at {fix.new}")
        self._now = replace(after, lock=lock)
        outcome.changes += describe_other_changes(
            pnpm_text.packages(now.lock), pnpm_text.packages(self._now.lock), fix.package
        )
        return outcome

    def _resolve(self, directs: list[Direct], parents: list[Parent], fix: Fix) -> str:
        """The lock file that pnpm writes if every requirement is exactly this version."""
        manifests = strip_manifests(self._now.manifests)
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
        tables = self._now.settings.tables(self._now.settings.overrides | rules)
        lock = self._project.lock(self._now.lock, self._now.workspace, tables, manifests)
        versions = pnpm_text.find_versions(lock, fix.package)
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
            manifests[member] = package_json.raise_requirement(text, direct.name, fix.new)
            if manifests[member] != text:
                edited[self._project.files.name(member)] = None
            if catalog := catalogs.parse_catalog(direct.spec):
                before = workspace
                workspace, lock = catalogs.update_catalog(
                    workspace, lock, known, catalog, direct.name, fix.new
                )
                known = lock
                if workspace != before:
                    edited[self._project.files.file_name(WORKSPACE)] = None
        outcome.changes += [
            f"{code(name)} excluded {fix.new} and now allows it." for name in edited
        ]
        return replace(state, lock=lock, workspace=workspace, manifests=manifests)

    def _raise_overrides(self, state: _State, fix: Fix, outcome: Outcome) -> _State:
        """Raise existing overrides that keep the old version."""
        settings = state.settings
        kept_back = pnpm_overrides.raise_keeping(settings.overrides, fix.package, fix.old, fix.new)
        for key, spec in kept_back.items():
            settings = settings.add_override(key, spec)
            place = code(self._project.files.file_name(settings.place))
            outcome.changes.append(
                f"The override {code(key)} in {place} kept it at {fix.old} and now allows "
                f"{fix.new}."
            )
        return state.with_settings(settings)

    def _add_overrides(
        self, state: _State, excluding: list[Parent], fix: Fix, outcome: Outcome
    ) -> _State:
        settings = state.settings
        for parent in excluding:
            key = f"{self._parent_name(parent)}>{parent.name}"
            settings = settings.add_override(key, fix.new)
            describe_override(
                *(outcome, f"the override {code(key)}", parent.package),
                *(f"{code(parent.name)} {fix.new}", self._project.files.file_name(settings.place)),
                "pnpm install --lockfile-only",
            )
        return state.with_settings(settings)

    def _parent_name(self, parent: Parent) -> str:
        """The parent's name, with its version if the lock file has several."""
        is_alone = len(pnpm_text.find_versions(self._now.lock, parent.package)) < 2
        return parent.package if is_alone else parent.id

    def _find_excluding(self, lock: str, parents: list[Parent], fix: Fix) -> list[Parent]:
        """The packages that do not get the new version without an override."""
        allowing = pnpm_text.parents(lock, fix.package, fix.new)
        excluding = {
            (self._parent_name(parent), parent.name): parent
            for parent in parents
            if parent not in allowing
        }
        return [excluding[key] for key in sorted(excluding)]

    def _lock(self, state: _State) -> str:
        return _run_pnpm(self._project, state)

    def write(self) -> None:
        lock = self._now.lock
        if self._is_mergeable:
            lock = pnpm_text.merge(self._old, self._before.lock, lock)
        tree.write(self._path, tree.match_line_endings(self._text, self._head + lock))
        self._project.files.write(self._now.manifests, self._before.manifests)
        if self._now.workspace != self._before.workspace:
            self._project.write_workspace(self._now.workspace)


def _run_pnpm(project: PnpmProject, state: _State) -> str:
    manifests = strip_manifests(state.manifests)
    tables = state.settings.tables(state.settings.overrides)
    return project.lock(state.lock, state.workspace, tables, manifests)
