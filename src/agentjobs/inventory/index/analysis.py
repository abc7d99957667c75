"""What is found out about one blob by itself, and which analyzer a path asks for.

Facts depend on the bytes and the analyzer alone, so they hold in every repository that has the
blob. Refuses to know git and what the facts of all files mean together.
"""

import hashlib
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from agentjobs.git.blocking import LargeBlob
from agentjobs.inventory import imports, manifests
from agentjobs.inventory.index.lines import LineCounter, count_lines
from agentjobs.inventory.languages import language_of
from agentjobs.inventory.model import ManifestFacts, ModuleFacts

MAX_SOURCE_BYTES = 2 * 1024 * 1024
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_CONFIGURATION_BYTES = 64 * 1024
# Raised when something else than a reader changes what is said of the same bytes.
VERSION = 1
CONFIGURATION_PATH = ".agentjobs.toml"
# The only thing that is said of the limits and not of the bytes: it is not to be remembered.
OUT_OF_MEMORY = "needs more memory than an index may have: not read"
# Spares all other files a closer look.
_ENDINGS_NEEDED_FIRST = (CONFIGURATION_PATH, *manifests.ENDINGS)

Task = Literal["lines", "module", "manifest", "content"]


class Analyzer(NamedTuple):
    """`subject` is the language or the kind of manifest; `key` tells versions apart as well."""

    task: Task
    subject: str
    key: bytes


class BlobFacts(msgspec.Struct, frozen=True, array_like=True):
    """`lines` is None for a binary file; `warning` says what could not be found out, and why."""

    lines: int | None
    module: ModuleFacts | None = None
    manifest: ManifestFacts | None = None
    content: bytes | None = None
    warning: str = ""


class Place(NamedTuple):
    """What a path alone tells."""

    language: str | None
    analyzer: Analyzer


def fingerprint() -> str:
    """Changes whenever the same commit could give another index."""
    versions = [
        VERSION,
        manifests.VERSION,
        *(f"{name}{imports.VERSION[name]}" for name in sorted(imports.LANGUAGES)),
    ]
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:16]


def is_needed_first(path: str) -> bool:
    """Whether the file is no source, but its content is wanted; there are only a few of these."""
    if path.endswith(_ENDINGS_NEEDED_FIRST) or imports.CONFIG_MARK in path:
        return manifests.kind_of(path) is not None or _is_content(path)
    return False


def place_of(path: bytes, text: str) -> Place:
    language = language_of(path)
    # No manifest is written in a language that has imports: asked first, as most files are.
    place = _SOURCES.get(language)
    if place is not None:
        return place
    if not is_needed_first(text):
        return _place_of_lines(language)
    if _is_content(text):
        return Place(language, _analyzer("content", ""))
    return Place(language, _analyzer("manifest", manifests.kind_of(text) or ""))


def _is_content(path: str) -> bool:
    return path == CONFIGURATION_PATH or imports.is_config(path)


def analyze(analyzer: Analyzer, blob: bytes | LargeBlob) -> BlobFacts:
    """Never raises for what the bytes are."""
    if isinstance(blob, LargeBlob):
        return _analyze_large(analyzer, blob)
    lines = count_lines(blob)
    # A manifest's reader has its own word for what is binary, or in another encoding.
    if analyzer.task == "lines" or (lines is None and analyzer.task != "manifest"):
        return BlobFacts(lines)
    try:
        return _read(analyzer, blob, lines)
    except MemoryError:
        return BlobFacts(lines, warning=OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - a stranger's file must never end the index
        return BlobFacts(lines, warning=f"could not be read ({type(error).__name__})")


def _read(analyzer: Analyzer, content: bytes, lines: int | None) -> BlobFacts:
    if analyzer.task == "module":
        return BlobFacts(lines, module=imports.find(analyzer.subject, content))
    if analyzer.task == "manifest":
        return BlobFacts(lines, manifest=manifests.read(analyzer.subject, content))
    return BlobFacts(lines, content=content[: MAX_CONFIGURATION_BYTES + 1])


def _analyze_large(analyzer: Analyzer, blob: LargeBlob) -> BlobFacts:
    counter, kept = LineCounter(), []
    wanted = analyzer.task == "manifest" and blob.size <= MAX_MANIFEST_BYTES
    for piece in blob:
        counter.add(piece)
        if wanted:
            kept.append(piece)
    if analyzer.task == "lines" or (counter.lines is None and analyzer.task != "manifest"):
        return BlobFacts(counter.lines)
    if wanted:
        return analyze(analyzer, b"".join(kept))
    most = MAX_MANIFEST_BYTES if analyzer.task == "manifest" else MAX_SOURCE_BYTES
    return BlobFacts(
        counter.lines, warning=f"is larger than {most >> 20} MiB: only its lines are counted"
    )


@lru_cache
def _place_of_lines(language: str | None) -> Place:
    return Place(language, _LINES)


@lru_cache
def _analyzer(task: Task, subject: str) -> Analyzer:
    version = {"manifest": manifests.VERSION, "module": imports.VERSION.get(subject, 0)}.get(
        task, 0
    )
    name = f"{task}/{subject}/{version}/{VERSION}"
    return Analyzer(task, subject, zlib.crc32(name.encode()).to_bytes(4, "big"))


_LINES = _analyzer("lines", "")
_SOURCES: Mapping[str | None, Place] = {
    language: Place(language, _analyzer("module", language)) for language in imports.LANGUAGES
}
