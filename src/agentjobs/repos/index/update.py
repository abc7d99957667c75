"""The index of a commit from the one before it: only what differs is read and resolved.

Says None whenever a difference could reach further than the files it is in; a survey then
finds out. Refuses to guess.
"""

from pathlib import Path
from typing import NamedTuple

from agentjobs.git.blocking import Change, GitReadError, list_changes
from agentjobs.repos.index import imports
from agentjobs.repos.index.analysis import BlobFacts
from agentjobs.repos.index.cache import FactsCache
from agentjobs.repos.index.graph_data import pack_flat, unpack_flat
from agentjobs.repos.index.graph_merge import patch_graph
from agentjobs.repos.index.model import ManifestFacts, ModuleFacts
from agentjobs.repos.index.portion import WHOLE
from agentjobs.repos.index.state import State
from agentjobs.repos.index.survey import Planned, is_lasting, planned, read_facts, surroundings

MOST_CHANGES = 2_000


class _Edit(NamedTuple):
    before: Planned
    after: Planned
    was: BlobFacts
    now: BlobFacts


def update(git_dir: Path, old: str, new: str, state: State, cache: FactsCache) -> bool:
    """Brings `state` from one commit to the other; False: it cannot, and the state is spoilt."""
    try:
        changes = list_changes(git_dir, old, new)
    except GitReadError:
        # After a force-push the old commit may be gone.
        return False
    if len(changes) > MOST_CHANGES or not all(one.was_file and one.is_file for one in changes):
        return False
    edits = _edits(git_dir, changes, cache)
    if edits is None or not all(_stays_in_its_file(edit) for edit in edits):
        return False
    for edit in edits:
        state.whole.take(edit.before.path, edit.before.language, edit.was)
        state.whole.put(edit.after.path, edit.after.language, edit.now)
    changed = {
        edit.after.path: edit.now.module
        for edit in edits
        if edit.now.module is not None and edit.was.module != edit.now.module
    }
    return _resolve(state, changed)


def _edits(git_dir: Path, changes: list[Change], cache: FactsCache) -> list[_Edit] | None:
    """None when something of it is not known any more, or not there."""
    pairs = [
        (planned(one.path, one.old_blob), planned(one.path, one.new_blob))
        for one in changes
        if one.old_blob != one.new_blob
    ]
    known: dict[bytes, BlobFacts] = cache.get(one.key for pair in pairs for one in pair)
    unread = {after.key: after for _, after in pairs if after.key not in known}
    read = read_facts(git_dir, list(unread.values()))
    fresh = {key: facts for key, facts in read if is_lasting(facts)}
    cache.put(fresh)
    known.update(fresh)
    if any(one.key not in known for pair in pairs for one in pair):
        return None
    return [_Edit(*pair, known[pair[0].key], known[pair[1].key]) for pair in pairs]


def _stays_in_its_file(edit: _Edit) -> bool:
    """Whether no other file's imports can lead elsewhere because of this one."""
    if edit.now.content is not None or edit.was.content is not None:
        return not imports.is_config(edit.after.path)
    if edit.was.manifest is not None or edit.now.manifest is not None:
        return _names(edit.was.manifest) == _names(edit.now.manifest)
    # A source stays one: where imports lead depends on which paths exist, on no other file's words.
    return (edit.was.module is None) == (edit.now.module is None)


def _names(facts: ManifestFacts | None) -> tuple[object, ...]:
    return () if facts is None else (facts.project, facts.members, facts.notes)


def _resolve(state: State, changed: dict[str, ModuleFacts]) -> bool:
    if not changed:
        return True
    if WHOLE in state.whole.warnings:
        # What was left out of the graph is not known.
        return False
    around = surroundings(frozenset(state.paths), state.whole)
    part = imports.resolve(changed, *around)
    merged = patch_graph(unpack_flat(state.graph), state.whole.module_count, part, changed)
    if merged is None:
        return False
    state.graph = pack_flat(merged)
    return True
