"""Chooses the analyzer of a path and analyzes single blobs.

An analysis depends only on the bytes and the analyzer, so it is valid in every repository that has
the blob. Does not know git or how the analyses of all files combine.
"""

import hashlib
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from agentjobs.git.blocking import LargeBlob
from agentjobs.inventory import imports, manifests
from agentjobs.inventory.languages import language_of
from agentjobs.inventory.model import ParsedManifest, ParsedModule
from agentjobs.workspace.service_files import ServiceFile

BINARY_PROBE_BYTES = 8_000
MAX_SOURCE_BYTES = 2 * 1024 * 1024
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_CONFIGURATION_BYTES = 64 * 1024
# Incremented when analyses change for another reason than a reader's version.
VERSION = 2
# Incremented when the same analyses result in another index.
RESULT_VERSION = 3
(CONFIGURATION_PATH,) = ServiceFile.CONFIGURATION.value
# Depends on the memory limit and not only on the bytes, so it is not cached.
OUT_OF_MEMORY = "needs more memory than the index may use: not read"
# Rules out most files with one string test.
_ENDINGS_NEEDED_FIRST = (CONFIGURATION_PATH, *manifests.ENDINGS)

Task = Literal["lines", "module", "manifest", "content"]


class Analyzer(NamedTuple):
    """`subject` is the language or the kind of manifest; `key` includes the version."""

    task: Task
    subject: str
    key: bytes


class BlobAnalysis(msgspec.Struct, frozen=True, array_like=True):
    """`lines` is None for a binary file; `warning` says what could not be read, and why."""

    lines: int | None
    module: ParsedModule | None = None
    manifest: ParsedManifest | None = None
    content: bytes | None = None
    warning: str = ""


class FileKind(NamedTuple):
    """What the path alone determines."""

    language: str | None
    analyzer: Analyzer


class LineCounter:
    """Counts the lines of a file that is read in chunks."""

    def __init__(self) -> None:
        self._newlines = 0
        self._probed = 0
        self._binary = False
        self._unterminated = False

    def add(self, chunk: bytes) -> None:
        if self._binary or not chunk:
            return
        if self._probed < BINARY_PROBE_BYTES:
            unprobed = BINARY_PROBE_BYTES - self._probed
            self._binary = chunk.find(b"\0", 0, unprobed) >= 0
            self._probed += min(len(chunk), unprobed)
        self._newlines += chunk.count(b"\n")
        self._unterminated = not chunk.endswith(b"\n")

    @property
    def lines(self) -> int | None:
        """Newlines plus an unterminated last line; None for a binary file."""
        return None if self._binary else self._newlines + self._unterminated


def count_lines(blob: bytes) -> int | None:
    """The same for a complete file; a separate function because it runs for every file."""
    if blob.find(b"\0", 0, BINARY_PROBE_BYTES) >= 0:
        return None
    lines = blob.count(b"\n")
    return lines if not blob or blob.endswith(b"\n") else lines + 1


def fingerprint() -> str:
    """Changes whenever the same commit could produce a different index."""
    versions = [
        VERSION,
        RESULT_VERSION,
        manifests.VERSION,
        *(f"{name}{imports.VERSION[name]}" for name in sorted(imports.LANGUAGES)),
    ]
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:16]


def is_needed_first(path: str) -> bool:
    """True for manifests and configuration files, of which there are only a few."""
    if path.endswith(_ENDINGS_NEEDED_FIRST) or imports.CONFIG_MARK in path:
        return manifests.kind_of(path) is not None or _is_content(path)
    return False


def classify(path: bytes, text: str) -> FileKind:
    language = language_of(path)
    # Sources are checked first, because most files are sources and no source is a manifest.
    kind = _SOURCES.get(language)
    if kind is not None:
        return kind
    if not is_needed_first(text):
        return _plain_kind(language)
    if _is_content(text):
        return FileKind(language, _analyzer("content", ""))
    return FileKind(language, _analyzer("manifest", manifests.kind_of(text) or ""))


def _is_content(path: str) -> bool:
    return path == CONFIGURATION_PATH or imports.is_config(path)


def analyze(analyzer: Analyzer, blob: bytes | LargeBlob) -> BlobAnalysis:
    """Never raises because of the content."""
    if isinstance(blob, LargeBlob):
        return _analyze_large(analyzer, blob)
    lines = count_lines(blob)
    # Manifest readers report binary files and other encodings themselves.
    if analyzer.task == "lines" or (lines is None and analyzer.task != "manifest"):
        return BlobAnalysis(lines)
    try:
        return _read(analyzer, blob, lines)
    except MemoryError:
        return BlobAnalysis(lines, warning=OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - one file must never abort the index
        return BlobAnalysis(lines, warning=f"could not be read ({type(error).__name__})")


def _read(analyzer: Analyzer, content: bytes, lines: int | None) -> BlobAnalysis:
    if analyzer.task == "module":
        return BlobAnalysis(lines, module=imports.find(analyzer.subject, content))
    if analyzer.task == "manifest":
        return BlobAnalysis(lines, manifest=manifests.read(analyzer.subject, content))
    return BlobAnalysis(lines, content=content[: MAX_CONFIGURATION_BYTES + 1])


def _analyze_large(analyzer: Analyzer, blob: LargeBlob) -> BlobAnalysis:
    counter, chunks = LineCounter(), []
    is_wanted = analyzer.task == "manifest" and blob.size <= MAX_MANIFEST_BYTES
    for chunk in blob:
        counter.add(chunk)
        if is_wanted:
            chunks.append(chunk)
    if analyzer.task == "lines" or (counter.lines is None and analyzer.task != "manifest"):
        return BlobAnalysis(counter.lines)
    if is_wanted:
        return analyze(analyzer, b"".join(chunks))
    limit = MAX_MANIFEST_BYTES if analyzer.task == "manifest" else MAX_SOURCE_BYTES
    return BlobAnalysis(
        counter.lines, warning=f"is larger than {limit >> 20} MiB: only its lines are counted"
    )


@lru_cache
def _plain_kind(language: str | None) -> FileKind:
    return FileKind(language, _LINES)


@lru_cache
def _analyzer(task: Task, subject: str) -> Analyzer:
    version = {"manifest": manifests.VERSION, "module": imports.VERSION.get(subject, 0)}.get(
        task, 0
    )
    name = f"{task}/{subject}/{version}/{VERSION}"
    return Analyzer(task, subject, zlib.crc32(name.encode()).to_bytes(4, "big"))


_LINES = _analyzer("lines", "")
_SOURCES: Mapping[str | None, FileKind] = {
    language: FileKind(language, _analyzer("module", language)) for language in imports.LANGUAGES
}
