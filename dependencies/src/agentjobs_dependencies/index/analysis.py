"""Says by its path what is read of a file, and analyzes single blobs.

Does not know git or how the analyses of all files combine.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

import msgspec

from agentjobs_dependencies import formats, imports
from agentjobs_dependencies.imports.model import ParsedModule
from agentjobs_dependencies.languages import detect_language
from agentjobs_dependencies.model import ParsedManifest

BINARY_PROBE_BYTES = 8_000
MAX_SOURCE_BYTES = 2 * 1024 * 1024
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_CONFIGURATION_BYTES = 64 * 1024
# Incremented when the same commit results in another index, except because of manifests.
VERSION = 5
OUT_OF_MEMORY = "needs more memory than the index may use: not read"

Task = Literal["lines", "module", "manifest", "content"]


class LargeBlob(Protocol):
    """A file that is too large to hold in memory. Its pieces can be read once."""

    @property
    def size(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...


class FileKind(NamedTuple):
    """What the path alone determines; `subject` is the language or the kind of manifest."""

    language: str | None
    task: Task
    subject: str = ""


class BlobAnalysis(msgspec.Struct, frozen=True):
    """`lines` is None for a file that is binary or too large; `warning` says why it is not read."""

    lines: int | None
    module: ParsedModule | None = None
    manifest: ParsedManifest | None = None
    content: bytes | None = None
    warning: str = ""


def count_lines(blob: bytes) -> int | None:
    """Newlines plus an unterminated last line; None for a binary file."""
    if blob.find(b"\0", 0, BINARY_PROBE_BYTES) >= 0:
        return None
    lines = blob.count(b"\n")
    return lines if not blob or blob.endswith(b"\n") else lines + 1


def fingerprint() -> str:
    """Changes whenever the same commit could produce a different index."""
    return f"{VERSION}.{formats.VERSION}"


def is_manifest_or_configuration(path: str) -> bool:
    """True for manifests and configuration files, of which there are only a few."""
    # Rules out most files with one string test.
    if path.endswith(formats.ENDINGS) or imports.CONFIG_MARK in path:
        return formats.detect_kind(path) is not None or imports.is_config(path)
    return False


def classify(path: bytes, text: str) -> FileKind:
    language = detect_language(path)
    # Sources are checked first, because most files are sources and no source is a manifest.
    kind = _SOURCES.get(language)
    if kind is not None:
        return kind
    if not is_manifest_or_configuration(text):
        return FileKind(language, "lines")
    if imports.is_config(text):
        return FileKind(language, "content")
    return FileKind(language, "manifest", formats.detect_kind(text) or "")


def analyze(kind: FileKind, blob: bytes | LargeBlob) -> BlobAnalysis:
    """Never raises because of the content."""
    if not isinstance(blob, bytes):
        return _analyze_large(kind, blob)
    lines = count_lines(blob)
    # Manifest readers report binary files and other encodings themselves.
    if kind.task == "lines" or (lines is None and kind.task != "manifest"):
        return BlobAnalysis(lines)
    try:
        return _read(kind, blob, lines)
    except MemoryError:
        return BlobAnalysis(lines, warning=OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - one file must never abort the index
        return BlobAnalysis(lines, warning=f"could not be read ({type(error).__name__})")


def _read(kind: FileKind, content: bytes, lines: int | None) -> BlobAnalysis:
    if kind.task == "module":
        return BlobAnalysis(lines, module=imports.find(kind.subject, content))
    if kind.task == "manifest":
        return BlobAnalysis(lines, manifest=formats.read(kind.subject, content))
    return BlobAnalysis(lines, content=content[: MAX_CONFIGURATION_BYTES + 1])


def _analyze_large(kind: FileKind, blob: LargeBlob) -> BlobAnalysis:
    if kind.task == "manifest" and blob.size <= MAX_MANIFEST_BYTES:
        return analyze(kind, b"".join(blob))
    if kind.task == "lines" and kind.language is None:
        return BlobAnalysis(None)
    limit = MAX_MANIFEST_BYTES if kind.task == "manifest" else MAX_SOURCE_BYTES
    return BlobAnalysis(None, warning=f"is larger than {limit >> 20} MiB: neither read nor counted")


_SOURCES: Mapping[str | None, FileKind] = {
    language: FileKind(language, "module", language) for language in imports.LANGUAGES
}
