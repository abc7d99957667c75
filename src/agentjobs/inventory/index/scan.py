"""Scans all files of a commit: takes their analyses from the cache or reads their blobs.

Decides what is read, in which order and by how many processes.
"""

import os
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeGuard

import msgspec

from agentjobs.git.blocking import list_files, read_blobs, split_record
from agentjobs.inventory import imports
from agentjobs.inventory.graph.encoding import FlatGraph, to_columns
from agentjobs.inventory.index.analysis import (
    MAX_SOURCE_BYTES,
    OUT_OF_MEMORY,
    Analyzer,
    BlobAnalysis,
    analyze,
    classify,
    is_needed_first,
)
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.parallel import Receive, run_parallel
from agentjobs.inventory.index.partial_index import (
    TOO_MANY_IMPORTS,
    WHOLE_REPOSITORY,
    PartialIndex,
    merge,
    merge_graphs,
)
from agentjobs.inventory.model import ParsedManifest

# One process scans fewer files faster than several would.
MIN_PARALLEL_FILES = 1_500
MAX_PROCESSES = 4
CACHE_EVERY_BLOBS = 20_000
_CHUNK_FILES = 256
_REPORT_EVERY_FILES = 64

OnProgress = Callable[[int, int], None]


class PlannedFile(msgspec.Struct, frozen=True, gc=False):
    path: str
    language: str | None
    analyzer: Analyzer
    blob: bytes
    key: bytes


class ResolutionContext(NamedTuple):
    """What resolving imports depends on besides the imports; `paths` maps to file numbers."""

    paths: Mapping[str, int]
    manifests: Mapping[str, ParsedManifest]
    configs: Mapping[str, bytes]


@contextmanager
def scan_commit(
    git_dir: Path,
    commit: str,
    cache_path: Path,
    progress: OnProgress,
    on_manifests: Callable[[PartialIndex], None] = lambda _: None,
) -> Iterator[tuple[PartialIndex, FlatGraph]]:
    """The index and graph of a commit; leaving the block waits until the analyses are cached.

    `on_manifests` gets the index of manifests and configuration files while others are read.
    """
    records = list_files(git_dir, commit)
    progress(0, len(records))
    processes = _process_count(len(records))
    first: list[PartialIndex] = []
    all_paths: list[str] = []

    def read_first() -> bytes:
        text = display_path(b"\0".join([record.partition(b"\t")[2] for record in records]))
        paths = text.split("\0") if records else []
        needed = [number for number, path in enumerate(paths) if is_needed_first(path)]
        plan = [plan_file(*split_record(records[number])) for number in needed]
        first.append(_scan_files(git_dir, plan, cache_path))
        all_paths.extend(sorted(paths))
        context = _pack_context(all_paths, first[0])
        on_manifests(first[0])
        return context

    def read(
        process: int, report: Callable[[int], None], receive: Receive
    ) -> Iterator[PartialIndex]:
        own_records = _records_of(process, processes, records)
        plan = [plan_file(*split_record(record)) for record in own_records]
        own = [file for file in plan if file.analyzer.task in ("module", "lines")]
        return _read_partial_index(
            git_dir, own, cache_path, report, lambda: _unpack_context(receive())
        )

    def on_progress(done: int) -> None:
        progress(done, len(records))

    with run_parallel(read, processes, on_progress, read_first) as partials:
        on_progress(len(records))
        yield merge([*first, *partials], all_paths), merge_graphs(partials, all_paths)


def scan_manifests(git_dir: Path, records: Sequence[bytes], cache_path: Path) -> PartialIndex:
    """Reads only the manifests and configuration files among the `records` of `list_files`."""
    files = map(split_record, records)
    plan = [plan_file(*file) for file in files if is_needed_first(display_path(file[0]))]
    return _scan_files(git_dir, plan, cache_path)


def _scan_files(git_dir: Path, plan: Sequence[PlannedFile], cache_path: Path) -> PartialIndex:
    empty = ResolutionContext({}, {}, {})
    (partial,) = _read_partial_index(git_dir, plan, cache_path, lambda _: None, lambda: empty)
    partial.paths = [file.path for file in plan]
    return partial


def resolution_context(paths: Iterable[str], index: PartialIndex) -> ResolutionContext:
    configs = {path: text for path, text in index.contents.items() if imports.is_config(path)}
    return ResolutionContext(_number(paths), index.manifests, configs)


def _number(paths: Iterable[str]) -> dict[str, int]:
    return dict(zip(paths, count(), strict=False))


def _pack_context(paths: Sequence[str], first: PartialIndex) -> bytes:
    """Encode the resolution context for other processes, without data they do not need."""
    names = {
        path: msgspec.structs.replace(manifest, requirements=(), packages=(), roots=())
        for path, manifest in first.manifests.items()
    }
    configs = resolution_context((), first).configs
    return msgspec.msgpack.encode(("\0".join(paths), names, configs))


def _unpack_context(data: bytes) -> ResolutionContext:
    kind = tuple[str, dict[str, ParsedManifest], dict[str, bytes]]
    paths, names, configs = msgspec.msgpack.decode(data, type=kind)
    return ResolutionContext(_number(paths.split("\0")), names, configs)


def _read_partial_index(
    git_dir: Path,
    plan: Sequence[PlannedFile],
    cache_path: Path,
    report: Callable[[int], None],
    context: Callable[[], ResolutionContext],
) -> Iterator[PartialIndex]:
    """Yields one partial index; resuming the iterator then caches the analyses."""
    cache = AnalysisCache(cache_path)
    known: dict[bytes, BlobAnalysis | None] = {**cache.get(file.key for file in plan)}
    unread = {file.key: file for file in plan if file.key not in known}
    fresh: dict[bytes, BlobAnalysis] = {}
    done = len(plan) - len(unread)
    for key, analysis in analyze_files(git_dir, list(unread.values())):
        known[key] = analysis
        if is_cacheable(analysis):
            fresh[key] = analysis
        done += 1
        if not done % _REPORT_EVERY_FILES:
            report(done)
        if len(fresh) >= CACHE_EVERY_BLOBS:
            # An index that is interrupted resumes here.
            cache.put(fresh)
            fresh.clear()
    report(done)
    yield _build_partial_index(plan, known, context())
    cache.put(fresh)
    cache.close()


def _build_partial_index(
    plan: Sequence[PlannedFile],
    analyses: Mapping[bytes, BlobAnalysis | None],
    context: ResolutionContext,
) -> PartialIndex:
    """Everything but the paths, which the caller has."""
    partial, modules = PartialIndex(), {}
    for file in plan:
        analysis = analyses[file.key]
        partial.add_file(file.path, file.language, analysis)
        if analysis is not None and analysis.module is not None:
            modules[file.path] = analysis.module
    partial.module_count = len(modules)
    graph = imports.resolve(modules, *context)
    partial.graph = to_columns(graph)
    if imports.is_full(graph):
        partial.warnings[WHOLE_REPOSITORY] = TOO_MANY_IMPORTS
    return partial


def analyze_files(
    git_dir: Path, plan: Sequence[PlannedFile]
) -> Iterator[tuple[bytes, BlobAnalysis | None]]:
    """The key and analysis of each file; None if the repository lacks the blob."""
    blobs = read_blobs(git_dir, [file.blob for file in plan], MAX_SOURCE_BYTES)
    for file, content in zip(plan, blobs, strict=True):
        yield file.key, None if content is None else analyze(file.analyzer, content)


def is_cacheable(analysis: BlobAnalysis | None) -> TypeGuard[BlobAnalysis]:
    """True if the next index would produce the same analysis."""
    return analysis is not None and analysis.warning != OUT_OF_MEMORY


def plan_file(path: bytes, blob: bytes) -> PlannedFile:
    text = display_path(path)
    language, analyzer = classify(path, text)
    return PlannedFile(text, language, analyzer, blob, unhexlify(blob) + analyzer.key)


def display_path(path: bytes) -> str:
    """Bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def _process_count(files: int) -> int:
    cores = len(os.sched_getaffinity(0))
    return 1 if files < MIN_PARALLEL_FILES else min(cores, MAX_PROCESSES)


def _records_of(process: int, processes: int, records: Sequence[bytes]) -> list[bytes]:
    """Chunks keep neighboring files together, and each process gets some of every directory."""
    starts = range(process * _CHUNK_FILES, len(records), processes * _CHUNK_FILES)
    return [record for start in starts for record in records[start : start + _CHUNK_FILES]]
