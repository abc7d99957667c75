"""One pass over a commit: the facts of every file, from the cache or from its blob.

Knows what is read, in which order and by how many processes; refuses to know what it means.
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
from agentjobs.inventory.graph_data import FlatGraph, to_columns
from agentjobs.inventory.index.analysis import (
    MAX_SOURCE_BYTES,
    OUT_OF_MEMORY,
    Analyzer,
    BlobFacts,
    analyze,
    is_needed_first,
    place_of,
)
from agentjobs.inventory.index.cache import FactsCache
from agentjobs.inventory.index.parallel import Wait, in_shares
from agentjobs.inventory.index.partial_index import (
    TOO_MANY_IMPORTS,
    WHOLE,
    Portion,
    merge,
    merged_graph,
)
from agentjobs.inventory.model import ManifestFacts

# Fewer are read sooner by one process than by several.
SHARED_FROM_FILES = 1_500
MAX_SHARES = 4
KEPT_EVERY_BLOBS = 20_000
_TURN_FILES = 256
_COUNT_EVERY = 64

OnProgress = Callable[[int, int], None]


class Planned(msgspec.Struct, frozen=True, gc=False):
    path: str
    language: str | None
    analyzer: Analyzer
    blob: bytes
    key: bytes


class Surroundings(NamedTuple):
    """What decides, besides a file's own imports, where they lead; paths have their numbers."""

    paths: Mapping[str, int]
    manifests: Mapping[str, ManifestFacts]
    configs: Mapping[str, bytes]


@contextmanager
def survey(
    git_dir: Path,
    commit: str,
    cache_path: Path,
    progress: OnProgress,
    on_first: Callable[[Portion], None] = lambda _: None,
) -> Iterator[tuple[Portion, FlatGraph]]:
    """All of a commit; what was found is kept for the next time until the block is left.

    `on_first` gets the files that are needed first, while others are still read.
    """
    records = list_files(git_dir, commit)
    progress(0, len(records))
    shares = _shares_for(len(records))
    known: list[Portion] = []
    every: list[str] = []

    def read_first() -> bytes:
        text = shown(b"\0".join([record.partition(b"\t")[2] for record in records]))
        paths = text.split("\0") if records else []
        first = [at for at, path in enumerate(paths) if is_needed_first(path)]
        plan = [planned(*split_record(records[at])) for at in first]
        known.append(_survey_some(git_dir, plan, cache_path))
        every.extend(sorted(paths))
        notice = _pack_around(every, known[0])
        on_first(known[0])
        return notice

    def read(share: int, tell: Callable[[int], None], wait: Wait) -> Iterator[Portion]:
        plan = [planned(*split_record(record)) for record in _turns(records, share, shares)]
        own = [one for one in plan if one.analyzer.task in ("module", "lines")]
        return _read_portion(git_dir, own, cache_path, tell, lambda: _unpack_around(wait()))

    with in_shares(read, shares, lambda done: progress(done, len(records)), read_first) as portions:
        progress(len(records), len(records))
        yield merge([*known, *portions], every), merged_graph(portions, every)


def survey_manifests(git_dir: Path, commit: str, cache_path: Path) -> Portion:
    """What a commit's manifests say; nothing else of it is read."""
    files = (split_record(record) for record in list_files(git_dir, commit))
    plan = [planned(*file) for file in files if is_needed_first(shown(file[0]))]
    return _survey_some(git_dir, plan, cache_path)


def _survey_some(git_dir: Path, plan: Sequence[Planned], cache_path: Path) -> Portion:
    nothing = Surroundings({}, {}, {})
    (portion,) = _read_portion(git_dir, plan, cache_path, lambda _: None, lambda: nothing)
    portion.paths = [one.path for one in plan]
    return portion


def surroundings(paths: Iterable[str], known: Portion) -> Surroundings:
    configs = {path: text for path, text in known.contents.items() if imports.is_config(path)}
    return Surroundings(_numbered(paths), known.manifests, configs)


def _numbered(paths: Iterable[str]) -> dict[str, int]:
    return dict(zip(paths, count(), strict=False))


def _pack_around(paths: Sequence[str], known: Portion) -> bytes:
    """Of what is known first, what decides where imports lead."""
    names = {
        path: msgspec.structs.replace(facts, requirements=(), packages=(), roots=())
        for path, facts in known.manifests.items()
    }
    configs = surroundings((), known).configs
    return msgspec.msgpack.encode(("\0".join(paths), names, configs))


def _unpack_around(data: bytes) -> Surroundings:
    kind = tuple[str, dict[str, ManifestFacts], dict[str, bytes]]
    paths, names, configs = msgspec.msgpack.decode(data, type=kind)
    return Surroundings(_numbered(paths.split("\0")), names, configs)


def _read_portion(
    git_dir: Path,
    plan: Sequence[Planned],
    cache_path: Path,
    tell: Callable[[int], None],
    around: Callable[[], Surroundings],
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
        if not done % _COUNT_EVERY:
            tell(done)
        if len(fresh) >= KEPT_EVERY_BLOBS:
            # An index that is ended goes on where it was.
            cache.put(fresh)
            fresh.clear()
    tell(done)
    yield _portion(plan, known, around())
    cache.put(fresh)
    cache.close()


def _portion(
    plan: Sequence[Planned], known: Mapping[bytes, BlobFacts | None], around: Surroundings
) -> Portion:
    """All but its paths, which whoever asked for it has."""
    portion, modules = Portion(), {}
    for one in plan:
        facts = known[one.key]
        portion.put(one.path, one.language, facts)
        if facts is not None and facts.module is not None:
            modules[one.path] = facts.module
    portion.module_count = len(modules)
    graph = imports.resolve(modules, *around)
    portion.graph = to_columns(graph)
    if imports.is_full(graph):
        portion.warnings[WHOLE] = TOO_MANY_IMPORTS
    return portion


def read_facts(git_dir: Path, plan: Sequence[Planned]) -> Iterator[tuple[bytes, BlobFacts | None]]:
    """The facts of each, and None where the repository lacks the blob."""
    blobs = read_blobs(git_dir, [one.blob for one in plan], MAX_SOURCE_BYTES)
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
    return 1 if files < SHARED_FROM_FILES else min(cores, MAX_SHARES)


def _turns(records: Sequence[bytes], share: int, shares: int) -> list[bytes]:
    """Neighbours stay together, and yet every share gets some of each directory."""
    starts = range(share * _TURN_FILES, len(records), shares * _TURN_FILES)
    return [record for start in starts for record in records[start : start + _TURN_FILES]]
