"""package-lock.json and npm-shrinkwrap.json: npm itself moves one package, in a copy.

npm works on format 3 whatever the file has. What it changed between the file as it was and the
file as it shall be is then done to the old text, so that nothing else moves.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cve_fixer import json_text, tree
from cve_fixer.apply_fixes import in_a_copy
from cve_fixer.collateral_changes import came_along
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.npm import package_json, project
from cve_fixer.npm import tree as npm_tree
from cve_fixer.npm.project import NpmProject
from cve_fixer.npm.ranges import admits, exactly, raised
from cve_fixer.npm.style import in_style_of
from cve_fixer.npm.tree import Ask
from cve_fixer.text import code

Lock = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _State:
    """The lock file in format 3 and the package.json files as the fixes so far have them."""

    lock: Lock
    manifests: dict[str, str]

    @property
    def packages(self) -> dict[str, Any]:
        packages: dict[str, Any] = self.lock["packages"]
        return packages


def fix(fixes: list[Fix], root: Path) -> Outcome:
    return in_a_copy(fixes, lambda first, copy: _Editing(first, root, copy))


class _Editing:
    """One lock file while its fixes are made, one after the other."""

    def __init__(self, first: Fix, root: Path, copy: Path) -> None:
        self._path = tree.file_in(root, first.manifest)
        self._text = tree.read(self._path)
        lock = json_text.read_object(self._text, first.manifest)
        self._format = _format_of(lock)
        self._project = NpmProject(root, self._path.parent, copy, first.registry)
        self._project.omits_addresses = '"resolved": "http' not in self._text
        manifests = self._project.manifests(["", *npm_tree.members(lock)])
        if "" not in manifests:
            raise CannotFix(f"no package.json lies beside {first.manifest}")
        self._before = self._now = _State(self._locked(lock, manifests), manifests)

    def move(self, wanted: Fix) -> Outcome:
        packages = self._now.packages
        copies = npm_tree.copies_of(packages, wanted.package)
        moving = {path for path, entry in copies.items() if _moves(entry, wanted)}
        if not moving:
            raise CannotFix(_why_nothing_moves(copies, wanted))
        asks = npm_tree.asks_for(packages, copies)
        resolved = self._resolved(asks, moving, wanted)
        outcome = Outcome(made=[wanted])
        ours, theirs = _excluding([ask for ask in asks if ask.given in moving], wanted.new)
        manifests = self._raise_ranges(ours, wanted, outcome)
        manifests, is_ruled = self._raise_rules(manifests, wanted, outcome)
        after = None if theirs and not is_ruled else self._settled(resolved, manifests, wanted)
        if after is None and theirs:
            manifests = self._override(manifests, theirs, wanted, outcome)
            after = self._settled(resolved, manifests, wanted)
        if after is None:
            raise CannotFix(f"npm does not leave {wanted.package} at {wanted.new}")
        outcome.changes += came_along(
            npm_tree.versions(packages), npm_tree.versions(after.packages), wanted.package
        )
        self._now = after
        return outcome

    def _resolved(self, asks: list[Ask], moving: set[str], wanted: Fix) -> Lock:
        """The lock file after npm was made to believe that everyone asks for just this version."""
        lock, manifests = deepcopy(self._now.lock), project.harmless(self._now.manifests)
        for ask in asks:
            version = wanted.new if ask.given in moving else lock["packages"][ask.given]["version"]
            pinned = exactly(ask.spec, version)
            lock["packages"][ask.asking][ask.section][ask.name] = pinned
            if ask.asking in manifests:
                manifests[ask.asking][ask.section][ask.name] = pinned
        if "overrides" in manifests[""]:
            overrides = manifests[""]["overrides"]
            manifests[""]["overrides"] = package_json.without_rules(overrides, wanted.package)
        resolved = self._project.lock(lock, manifests)
        for ask in asks:
            asking = resolved["packages"].get(ask.asking, {}).get(ask.section, {})
            if ask.name in asking:
                asking[ask.name] = ask.spec
        return resolved

    def _settled(self, lock: Lock, manifests: dict[str, str], wanted: Fix) -> _State | None:
        """None when npm, asked again without that belief, does not leave all its copies so."""
        state = _State(self._locked(lock, manifests), manifests)
        wished, found = (
            {
                entry.get("version")
                for entry in npm_tree.copies_of(packages, wanted.package).values()
            }
            for packages in (lock["packages"], state.packages)
        )
        return state if wished == found and wanted.new in found else None

    def _raise_ranges(self, ours: list[Ask], wanted: Fix, outcome: Outcome) -> dict[str, str]:
        manifests = dict(self._now.manifests)
        for ask in ours:
            if ask.asking in manifests:
                text, place = manifests[ask.asking], code(self._project.name(ask.asking))
                manifests[ask.asking] = package_json.admitting(text, ask.name, wanted.new)
                outcome.changes.append(f"{place} excluded {wanted.new} and now admits it.")
        return manifests

    def _raise_rules(
        self, manifests: dict[str, str], wanted: Fix, outcome: Outcome
    ) -> tuple[dict[str, str], bool]:
        """Overrides that are there already and keep the old version."""
        text = manifests[""]
        rules = list(
            package_json.override_rules(package_json.read(text).get("overrides"), wanted.package)
        )
        keeping = [
            (path, spec)
            for path, spec in rules
            if admits(spec, wanted.old) and admits(spec, wanted.new) is False
        ]
        for path, spec in keeping:
            text = json_text.with_value(text, ("overrides", *path), raised(spec, wanted.new))
        if keeping:
            outcome.changes.append(
                f"The override of {code(wanted.package)} in {code(self._project.name(''))} kept it "
                f"at {wanted.old} and now admits {wanted.new}."
            )
        return {**manifests, "": text}, bool(rules)

    def _override(
        self, manifests: dict[str, str], theirs: list[Ask], wanted: Fix, outcome: Outcome
    ) -> dict[str, str]:
        text, place = manifests[""], self._project.name("")
        asks = {(self._named(ask), ask.name): ask for ask in theirs}
        for (parent, name), ask in sorted(asks.items()):
            version = exactly(ask.spec, wanted.new)
            text = package_json.with_override(text, parent, name, version)
            _tell_of_override(outcome, parent, f"{code(name)} {wanted.new}", place)
        return {**manifests, "": text}

    def _named(self, ask: Ask) -> str:
        """With its version where other versions of it must not be meant."""
        packages = self._now.packages
        others = npm_tree.copies_of(packages, npm_tree.name_of(ask.asking, packages[ask.asking]))
        version = packages[ask.asking].get("version")
        is_alone = all(entry.get("version") == version for entry in others.values())
        return ask.parent if is_alone else f"{ask.parent}@{version}"

    def _locked(self, lock: Lock, manifests: dict[str, str], lock_format: int = 3) -> Lock:
        return self._project.lock(lock, project.harmless(manifests), lock_format)

    def write(self) -> None:
        before, now = (self._in_own_format(state) for state in (self._before, self._now))
        edited = json_text.patched(self._text, before, in_style_of(self._text, now))
        changed = {
            member: text
            for member, text in self._now.manifests.items()
            if text != self._before.manifests[member]
        }
        tree.write(self._path, edited)
        self._project.write(changed)

    def _in_own_format(self, state: _State) -> Lock:
        if self._format >= 3:
            return state.lock
        return self._locked(state.lock, state.manifests, self._format)


def _format_of(lock: Lock) -> int:
    lock_format = lock.get("lockfileVersion", 1)
    if lock_format not in (1, 2, 3):
        raise CannotFix(f"the lock file has the unknown format {lock_format!r}")
    return int(lock_format)


def _moves(entry: Mapping[str, Any], wanted: Fix) -> bool:
    return entry.get("version") == wanted.old and not entry.get("inBundle")


def _why_nothing_moves(copies: Mapping[str, Any], wanted: Fix) -> str:
    if any(entry.get("version") == wanted.old for entry in copies.values()):
        return f"{wanted.package} {wanted.old} is bundled inside another package"
    return f"{wanted.manifest} does not hold {wanted.package} {wanted.old}"


def _excluding(asks: list[Ask], version: str) -> tuple[list[Ask], list[Ask]]:
    """Ranges that must change here, and those of other packages, which only overrides overrule."""
    excluding = [ask for ask in asks if admits(ask.spec, version) is False]
    ours = [ask for ask in excluding if ask.is_ours]
    return ours, [ask for ask in excluding if not ask.is_ours]


def _tell_of_override(outcome: Outcome, parent: str, version: str, place: str) -> None:
    outcome.changes.append(
        f"{code(parent)} excludes {version}, so `overrides` in {code(place)} says otherwise: run "
        "the tests before you merge."
    )
    outcome.undo.append(
        f"Once {code(parent)} admits {version}, remove the entry from `overrides` in {code(place)} "
        "and run `npm install --package-lock-only`."
    )
