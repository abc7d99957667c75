"""The index of a commit from the one before it: only what differs is read, and only what it can
lead elsewhere is resolved.

Says no whenever a difference could reach further than is known here; a survey then finds out.
Refuses to guess.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from agentjobs.git.blocking import (
    Change,
    GitReadError,
    begin_changes,
    changes_of,
    list_files,
    split_record,
)
from agentjobs.inventory import imports
from agentjobs.inventory.graph_data import FlatGraph, pack_flat, unpack_flat
from agentjobs.inventory.graph_merge import join_graphs, patch_graph, with_and_without
from agentjobs.inventory.index.analysis import BlobFacts
from agentjobs.inventory.index.cache import FactsCache
from agentjobs.inventory.index.partial_index import WHOLE
from agentjobs.inventory.index.scan import (
    Planned,
    is_lasting,
    planned,
    read_facts,
    shown,
    surroundings,
)
from agentjobs.inventory.index.state import State
from agentjobs.inventory.model import ManifestFacts, ModuleFacts

MAX_CHANGES = 2_000
# Of paths that one command is given.
_MAX_NAMED_CHARACTERS = 20_000


class _Side(NamedTuple):
    file: Planned
    facts: BlobFacts


class _Edit(NamedTuple):
    """None before a file appeared, and after it disappeared."""

    before: _Side | None
    after: _Side | None


def update(git_dir: Path, old: str, new: str, state: State, cache: FactsCache) -> bool:
    """Brings `state` from one commit to the other; False: it cannot, and the state is spoilt."""
    listing = begin_changes(git_dir, old, new)
    graph = unpack_flat(state.graph)
    try:
        changes = changes_of(listing)
    except GitReadError:
        # After a force-push the old commit may be gone.
        return False
    edits = _edits(git_dir, changes, cache) if len(changes) <= MAX_CHANGES else None
    if edits is None or not all(_is_bounded(edit) for edit in edits):
        return False
    changed = _changed(edits)
    moved = _move(state, edits)
    if changed or moved:
        if WHOLE in state.whole.warnings:
            # What was left out of the graph is not known.
            return False
        reached = _reached(state, graph, moved).difference(changed, moved)
        others = _modules_of(git_dir, new, reached, cache)
        if others is None or not _resolve(state, graph, changed | others, moved):
            return False
    for edit in edits:
        _count(state, edit)
    return True


def _edits(git_dir: Path, changes: list[Change], cache: FactsCache) -> list[_Edit] | None:
    """None when something of it is not known any more, or not there."""
    pairs = [
        (
            planned(one.path, one.old_blob) if one.was_file else None,
            planned(one.path, one.new_blob) if one.is_file else None,
        )
        for one in changes
        if (one.was_file, one.old_blob) != (one.is_file, one.new_blob)
    ]
    known: dict[bytes, BlobFacts] = cache.get(one.key for pair in pairs for one in pair if one)
    unread = {after.key: after for _, after in pairs if after and after.key not in known}
    read = read_facts(git_dir, list(unread.values()))
    fresh = {key: facts for key, facts in read if is_lasting(facts)}
    cache.put(fresh)
    known.update(fresh)
    if any(one.key not in known for pair in pairs for one in pair if one):
        return None
    return [_Edit(*[_Side(one, known[one.key]) if one else None for one in pair]) for pair in pairs]


def _is_bounded(edit: _Edit) -> bool:
    """Whether it is known here which other files' imports can lead elsewhere because of it."""
    if edit.before is None or edit.after is None:
        return all(
            # Two names that are no text may be shown as the same.
            side.file.analyzer.task in ("module", "lines") and "\\" not in side.file.path
            for side in edit
            if side is not None
        )
    was, now = edit.before.facts, edit.after.facts
    if now.content is not None or was.content is not None:
        return not imports.is_config(edit.after.file.path)
    if was.manifest is not None or now.manifest is not None:
        return _names(was.manifest) == _names(now.manifest)
    # A source stays one: where imports lead depends on which paths exist, on no other file's words.
    return (was.module is None) == (now.module is None)


def _names(facts: ManifestFacts | None) -> tuple[object, ...]:
    return () if facts is None else (facts.project, facts.members, facts.notes)


def _module(side: _Side | None) -> ModuleFacts | None:
    return side.facts.module if side is not None else None


def _changed(edits: list[_Edit]) -> dict[str, ModuleFacts]:
    """The sources that import something else now."""
    found = {}
    for edit in edits:
        now = _module(edit.after)
        if edit.after is not None and now is not None and now != _module(edit.before):
            found[edit.after.file.path] = now
    return found


def _move(state: State, edits: list[_Edit]) -> frozenset[str]:
    """The paths that appeared or disappeared; of which `state` then knows."""
    came = {edit.after.file.path for edit in edits if edit.after and not edit.before}
    went = {edit.before.file.path for edit in edits if edit.before and not edit.after}
    if came or went:
        state.new_paths = with_and_without(state.paths, came, went)
        state.file_count = len(state.new_paths)
    return frozenset(came | went)


def _reached(state: State, graph: FlatGraph, moved: frozenset[str]) -> set[str]:
    """The sources whose imports may lead elsewhere because of those paths."""
    if not moved:
        return set()
    stayed = [path for path in state.paths if path not in moved]
    _, manifests, configs = surroundings((), state.whole)
    return imports.reached(moved, stayed, manifests, configs, graph, state.whole.module_count)


def _modules_of(
    git_dir: Path, commit: str, paths: Collection[str], cache: FactsCache
) -> dict[str, ModuleFacts] | None:
    """None if there are too many of them, or some that nothing is known of."""
    if not paths or len(paths) > MAX_CHANGES:
        return None if paths else {}
    is_short = sum(map(len, paths)) <= _MAX_NAMED_CHARACTERS and not any("\\" in p for p in paths)
    records = list_files(git_dir, commit, sorted(paths) if is_short else ())
    plan = [planned(*file) for file in map(split_record, records) if shown(file[0]) in paths]
    known = cache.get(one.key for one in plan)
    found = {one.path: known[one.key].module for one in plan if one.key in known}
    modules = {path: module for path, module in found.items() if module is not None}
    return modules if len(modules) == len(paths) else None


def _resolve(
    state: State, graph: FlatGraph, changed: Mapping[str, ModuleFacts], moved: frozenset[str]
) -> bool:
    sources, paths = state.whole.module_count, state.paths
    removed = moved.difference(paths).intersection(graph.files) if moved else frozenset[str]()
    if not changed and not removed:
        return True
    part = join_graphs([imports.resolve(changed, *surroundings(paths, state.whole))], paths)
    merged = patch_graph(graph, sources, part, changed, removed)
    if merged is None:
        return False
    state.graph = pack_flat(merged)
    return True


def _count(state: State, edit: _Edit) -> None:
    if any(side is not None and side.facts.manifest is not None for side in edit):
        state.digest = ""
    if edit.before is not None:
        file, facts = edit.before
        state.whole.take(file.path, file.language, facts)
        state.whole.module_count -= facts.module is not None
    if edit.after is not None:
        file, facts = edit.after
        state.whole.put(file.path, file.language, facts)
        state.whole.module_count += facts.module is not None
