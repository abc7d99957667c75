"""Updates the index of one commit to another: reads only changed files, resolves only the imports
that they can affect.

Gives up whenever the effect of a change is not certain; the caller then scans the whole commit.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from agentjobs.git.blocking import (
    Change,
    GitReadError,
    list_files,
    read_changes,
    split_record,
    start_diff,
)
from agentjobs.inventory import imports
from agentjobs.inventory.graph.encoding import FlatGraph, pack_flat, unpack_flat
from agentjobs.inventory.graph.merge import join_graphs, patch_graph, update_sorted
from agentjobs.inventory.index.analysis import CONFIGURATION_PATH, BlobAnalysis
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.partial_index import WHOLE_REPOSITORY
from agentjobs.inventory.index.scan import (
    PlannedFile,
    analyze_files,
    display_path,
    is_cacheable,
    plan_file,
    resolution_context,
)
from agentjobs.inventory.index.state import IndexState
from agentjobs.inventory.model import ParsedManifest, ParsedModule

MAX_CHANGES = 2_000
# The total length of paths in one command.
_MAX_ARGUMENT_CHARACTERS = 20_000


class _FileVersion(NamedTuple):
    file: PlannedFile
    analysis: BlobAnalysis


class _Edit(NamedTuple):
    """`before` is None for an added file, `after` for a removed one."""

    before: _FileVersion | None
    after: _FileVersion | None


def update_state(
    git_dir: Path, old: str, new: str, state: IndexState, cache: AnalysisCache
) -> bool:
    """Update `state` from one commit to the other; on False, `state` must be discarded."""
    listing = start_diff(git_dir, old, new)
    graph = unpack_flat(state.graph)
    try:
        changes = read_changes(listing)
    except GitReadError:
        # After a force-push, the old commit may no longer exist.
        return False
    edits = _load_edits(git_dir, changes, cache) if len(changes) <= MAX_CHANGES else None
    if edits is None or not all(_has_known_effect(edit) for edit in edits):
        return False
    changed = _changed_modules(edits)
    path_changes = _apply_path_changes(state, edits)
    if changed or path_changes:
        if WHOLE_REPOSITORY in state.index.warnings:
            # It is unknown which imports the graph lacks.
            return False
        affected = _affected_sources(state, graph, path_changes).difference(changed, path_changes)
        others = _load_modules(git_dir, new, affected, cache)
        if others is None or not _resolve(state, graph, changed | others, path_changes):
            return False
    for edit in edits:
        _apply_edit(state, edit)
    return True


def _load_edits(git_dir: Path, changes: list[Change], cache: AnalysisCache) -> list[_Edit] | None:
    """None if an analysis is no longer cached or a blob is missing."""
    pairs = [
        (
            plan_file(change.path, change.old_blob) if change.was_file else None,
            plan_file(change.path, change.new_blob) if change.is_file else None,
        )
        for change in changes
        if (change.was_file, change.old_blob) != (change.is_file, change.new_blob)
    ]
    known: dict[bytes, BlobAnalysis] = cache.get(
        file.key for pair in pairs for file in pair if file
    )
    unread = {after.key: after for _, after in pairs if after and after.key not in known}
    analyses = analyze_files(git_dir, list(unread.values()))
    fresh = {key: analysis for key, analysis in analyses if is_cacheable(analysis)}
    cache.put(fresh)
    known.update(fresh)
    if any(file.key not in known for pair in pairs for file in pair if file):
        return None
    return [
        _Edit(*[_FileVersion(file, known[file.key]) if file else None for file in pair])
        for pair in pairs
    ]


def _has_known_effect(edit: _Edit) -> bool:
    """Whether this module can determine which other files' imports the edit affects."""
    if edit.before is None or edit.after is None:
        return all(
            # Two paths that are not UTF-8 may have the same displayed form.
            version.file.analyzer.task in ("module", "lines") and "\\" not in version.file.path
            for version in edit
            if version is not None
        )
    before, after = edit.before.analysis, edit.after.analysis
    if after.content is not None or before.content is not None:
        return not imports.is_config(edit.after.file.path)
    if before.manifest is not None or after.manifest is not None:
        return _names(before.manifest) == _names(after.manifest)
    # Resolving an import depends on which paths exist, not on the content of other sources.
    return (before.module is None) == (after.module is None)


def _names(manifest: ParsedManifest | None) -> tuple[object, ...]:
    return () if manifest is None else (manifest.project, manifest.members, manifest.notes)


def _module(version: _FileVersion | None) -> ParsedModule | None:
    return version.analysis.module if version is not None else None


def _changed_modules(edits: list[_Edit]) -> dict[str, ParsedModule]:
    """The sources whose imports have changed."""
    changed = {}
    for edit in edits:
        module = _module(edit.after)
        if edit.after is not None and module is not None and module != _module(edit.before):
            changed[edit.after.file.path] = module
    return changed


def _apply_path_changes(state: IndexState, edits: list[_Edit]) -> frozenset[str]:
    """Update the paths of `state`, and return those that were added or removed."""
    added = {edit.after.file.path for edit in edits if edit.after and not edit.before}
    removed = {edit.before.file.path for edit in edits if edit.before and not edit.after}
    if added or removed:
        state.new_paths = update_sorted(state.paths, added, removed)
        state.file_count = len(state.new_paths)
    return frozenset(added | removed)


def _affected_sources(
    state: IndexState, graph: FlatGraph, path_changes: frozenset[str]
) -> set[str]:
    """The sources whose imports may resolve differently because of added or removed paths."""
    if not path_changes:
        return set()
    unchanged = [path for path in state.paths if path not in path_changes]
    _, manifests, configs = resolution_context((), state.index)
    return imports.affected_sources(
        path_changes, unchanged, manifests, configs, graph, state.index.module_count
    )


def _load_modules(
    git_dir: Path, commit: str, paths: Collection[str], cache: AnalysisCache
) -> dict[str, ParsedModule] | None:
    """None if there are too many paths, or if an analysis is not cached."""
    if not paths or len(paths) > MAX_CHANGES:
        return None if paths else {}
    is_short = sum(map(len, paths)) <= _MAX_ARGUMENT_CHARACTERS and not any(
        "\\" in p for p in paths
    )
    records = list_files(git_dir, commit, sorted(paths) if is_short else ())
    plan = [
        plan_file(*file) for file in map(split_record, records) if display_path(file[0]) in paths
    ]
    known = cache.get(file.key for file in plan)
    cached = {file.path: known[file.key].module for file in plan if file.key in known}
    modules = {path: module for path, module in cached.items() if module is not None}
    return modules if len(modules) == len(paths) else None


def _resolve(
    state: IndexState,
    graph: FlatGraph,
    changed: Mapping[str, ParsedModule],
    path_changes: frozenset[str],
) -> bool:
    source_count, paths = state.index.module_count, state.paths
    removed = frozenset[str]()
    if path_changes:
        removed = path_changes.difference(paths).intersection(graph.files)
    if not changed and not removed:
        return True
    part = join_graphs([imports.resolve(changed, *resolution_context(paths, state.index))], paths)
    merged = patch_graph(graph, source_count, part, changed, removed)
    if merged is None:
        return False
    state.new_graph, state.graph = merged, pack_flat(merged)
    return True


def _affects_dependencies(version: _FileVersion) -> bool:
    is_manifest = version.analysis.manifest is not None
    return is_manifest or version.file.path == CONFIGURATION_PATH


def _apply_edit(state: IndexState, edit: _Edit) -> None:
    if any(version is not None and _affects_dependencies(version) for version in edit):
        state.digest = ""
    if edit.before is not None:
        file, analysis = edit.before
        state.index.remove_file(file.path, file.language, analysis)
        state.index.module_count -= analysis.module is not None
    if edit.after is not None:
        file, analysis = edit.after
        state.index.add_file(file.path, file.language, analysis)
        state.index.module_count += analysis.module is not None
