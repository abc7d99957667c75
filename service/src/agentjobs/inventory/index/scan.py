"""Reads the files of a commit, each blob once, and resolves their imports."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentjobs_dependencies.index.analysis import (
    MAX_SOURCE_BYTES,
    FileKind,
    analyze,
    classify,
    is_manifest_or_configuration,
)
from agentjobs_dependencies.index.commit_index import (
    CommitIndex,
)
from agentjobs_runtime.git.blocking import read_blobs, split_record
from agentjobs_runtime.repo_files.service_files import ServiceFile

(CONFIGURATION_PATH,) = ServiceFile.CONFIGURATION.value
_CONFIGURATION = FileKind(None, "content")
_REPORT_EVERY_BLOBS = 64

OnProgress = Callable[[int, int], None]


def scan_commit(git_dir: Path, records: Sequence[bytes], progress: OnProgress) -> CommitIndex:
    """`records` are those of `list_files`; `progress` gets how many of them are read."""
    progress(0, len(records))
    index = _read_files(git_dir, records, lambda done: progress(done, len(records)))
    index.resolve_imports(frozenset(map(_path, records)))
    progress(len(records), len(records))
    return index


def scan_manifests(git_dir: Path, records: Iterable[bytes]) -> CommitIndex:
    """Reads only the manifests and configuration files."""
    needed = [record for record in records if _is_needed(_path(record))]
    return _read_files(git_dir, needed, lambda _: None)


def _read_files(
    git_dir: Path, records: Sequence[bytes], report: Callable[[int], None]
) -> CommitIndex:
    # A repository with few blobs can have millions of paths.
    paths: dict[tuple[bytes, FileKind], list[str]] = {}
    for raw_path, blob in map(split_record, records):
        path = display_path(raw_path)
        paths.setdefault((blob, classify_file(raw_path, path)), []).append(path)
    index, done = CommitIndex(file_count=len(records)), 0
    blobs = read_blobs(git_dir, [blob for blob, _ in paths], MAX_SOURCE_BYTES)
    for number, (((_, kind), same_paths), content) in enumerate(
        zip(paths.items(), blobs, strict=True)
    ):
        analysis = None if content is None else analyze(kind, content)
        for path in same_paths:
            index.add_file(path, kind, analysis)
        done += len(same_paths)
        if not number % _REPORT_EVERY_BLOBS:
            report(done)
    return index


def classify_file(path: bytes, text: str) -> FileKind:
    return _CONFIGURATION if text == CONFIGURATION_PATH else classify(path, text)


def _is_needed(path: str) -> bool:
    return path == CONFIGURATION_PATH or is_manifest_or_configuration(path)


def _path(record: bytes) -> str:
    return display_path(split_record(record)[0])


def display_path(path: bytes) -> str:
    """Bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")
