"""One pass over a commit: the facts of every file, from the cache or from its blob.

Knows what is read, in which order and by how many processes; refuses to know what it means.
"""

import os
from binascii import unhexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeGuard

from agentjobs.git.blocking import list_files, read_blobs, split_record
from agentjobs.repos.index import imports
from agentjobs.repos.index.analysis import (
    MOST_SOURCE_BYTES,
    OUT_OF_MEMORY,
    Analyzer,
    BlobFacts,
    analyze,
    is_needed_first,
    place_of,
)
from agentjobs.repos.index.cache import FactsCache
from agentjobs.repos.index.model import ManifestFacts
from agentjobs.repos.index.portion import TOO_MANY_IMPORTS, WHOLE, Portion, merge
from agentjobs.repos.index.shares import in_shares

# Fewer are read sooner by one process than by several.
SHARED_FROM_FILES = 1_500
MOST_SHARES = 4
KEPT_EVERY_BLOBS = 20_000
_TURN_FILES = 64

OnProgress = Callable[[int, int], None]
# Path and blob.
_File = tuple[bytes, bytes]


class Planned(NamedTuple):
    path: str
    language: str | None
    analyzer: Analyzer
    blob: bytes
    key: bytes


class Surroundings(NamedTuple):
    """What decides, besides a file's own imports, where they lead."""

    paths: frozenset[str]
    manifests: Mapping[str, ManifestFacts]
    configs: Mapping[str, bytes]


@contextmanager
def survey(git_dir: Path, commit: str, cache_path: Path, progress: OnProgress) -> Iterator[Portion]:
    """All of a commit; what was found is kept for the next time until the block is left."""
    files = [split_record(record) for record in list_files(git_dir, commit)]
    progress(0, len(files))
    paths = [shown(path) for path, _ in files]
    first = {at for at, path in enumerate(paths) if is_needed_first(path)}
    known = _survey_some(git_dir, [planned(*files[at]) for at in sorted(first)], cache_path)
    around = surroundings(frozenset(paths), known)
    rest = [file for at, file in enumerate(files) if at not in first]
    shares = _shares_for(len(rest))

    def read(share: int, count: Callable[[int], None]) -> Iterator[Portion]:
        own = [planned(*file) for file in _turns(rest, share, shares)]
        return _read_portion(git_dir, own, cache_path, count, around)

    with in_shares(read, shares, lambda done: progress(done + len(first), len(files))) as portions:
        progress(len(files), len(files))
        yield merge([known, *portions])


def survey_manifests(git_dir: Path, commit: str, cache_path: Path) -> Portion:
    """What a commit's manifests say; nothing else of it is read."""
    files = (split_record(record) for record in list_files(git_dir, commit))
    plan = [planned(*file) for file in files if is_needed_first(shown(file[0]))]
    return _survey_some(git_dir, plan, cache_path)


def _survey_some(git_dir: Path, plan: Sequence[Planned], cache_path: Path) -> Portion:
    around = Surroundings(frozenset(), {}, {})
    (portion,) = _read_portion(git_dir, plan, cache_path, lambda _: None, around)
    return portion


def surroundings(paths: frozenset[str], known: Portion) -> Surroundings:
    configs = {path: text for path, text in known.contents.items() if imports.is_config(path)}
    return Surroundings(paths, known.manifests, configs)


def _read_portion(
    git_dir: Path,
    plan: Sequence[Planned],
    cache_path: Path,
    count: Callable[[int], None],
    around: Surroundings,
) -> Iterator[Portion]:
    """One portion, and then the facts it took are kept: nobody has to wait for that."""
    cache = FactsCache(cache_path)
    known: dict[bytes, BlobFacts | None] = {**cache.get(one.key for one in plan)}
    unread = {one.key: one for one in plan if one.key not in known}
    fresh: dict[bytes, BlobFacts] = {}
    done = len(plan) - len(unread)
    for key, facts in read_facts(git_dir, list(unread.values())):
        known[key] = facts
        if is_lasting(facts):
            fresh[key] = facts
        done += 1
        count(done)
        if len(fresh) >= KEPT_EVERY_BLOBS:
            # An index that is ended goes on where it was.
            cache.put(fresh)
            fresh.clear()
    yield _portion(plan, known, around)
    cache.put(fresh)
    cache.close()


def _portion(
    plan: Sequence[Planned], known: Mapping[bytes, BlobFacts | None], around: Surroundings
) -> Portion:
    portion, modules = Portion(), {}
    for one in plan:
        facts = known[one.key]
        portion.add(one.path, one.language, facts)
        if facts is not None and facts.module is not None:
            modules[one.path] = facts.module
    portion.module_count = len(modules)
    portion.graph = imports.resolve(modules, *around)
    if imports.is_full(portion.graph):
        portion.warnings[WHOLE] = TOO_MANY_IMPORTS
    return portion


def read_facts(git_dir: Path, plan: Sequence[Planned]) -> Iterator[tuple[bytes, BlobFacts | None]]:
    """The facts of each, and None where the repository lacks the blob."""
    blobs = read_blobs(git_dir, [one.blob for one in plan], MOST_SOURCE_BYTES)
    for one, content in zip(plan, blobs, strict=True):
        yield one.key, None if content is None else analyze(one.analyzer, content)


def is_lasting(facts: BlobFacts | None) -> TypeGuard[BlobFacts]:
    """Whether the next index would find the same."""
    return facts is not None and facts.warning != OUT_OF_MEMORY


def planned(path: bytes, blob: bytes) -> Planned:
    text = shown(path)
    language, analyzer = place_of(path, text)
    return Planned(text, language, analyzer, blob, unhexlify(blob) + analyzer.key)


def shown(path: bytes) -> str:
    """A name that is no text keeps its odd bytes in a visible form."""
    return path.decode("utf-8", "backslashreplace")


def _shares_for(files: int) -> int:
    cores = len(os.sched_getaffinity(0))
    return 1 if files < SHARED_FROM_FILES else min(cores, MOST_SHARES)


def _turns(files: Sequence[_File], share: int, shares: int) -> list[_File]:
    """Neighbours stay together, and yet every share gets some of each directory."""
    starts = range(share * _TURN_FILES, len(files), shares * _TURN_FILES)
    return [file for start in starts for file in files[start : start + _TURN_FILES]]
