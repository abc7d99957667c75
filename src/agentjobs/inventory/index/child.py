"""The main function of the index process: reads one request, writes messages, exits.

Repositories are hostile; whatever one does to this process, the service only sees it exit.
Imports little, because every index pays for starting this process.
"""

import errno
import gc
import os
import resource
import select
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from agentjobs.git.blocking import GitReadError, list_files
from agentjobs.git.limits import NICE
from agentjobs.inventory import manifests
from agentjobs.inventory.graph.encoding import pack_flat, unpack_flat
from agentjobs.inventory.imports.external_names import ExternalNames
from agentjobs.inventory.index import assembly
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.imported import mark_imported
from agentjobs.inventory.index.install_files import read_installed_together
from agentjobs.inventory.index.parallel import end_with_parent
from agentjobs.inventory.index.partial_index import PartialIndex
from agentjobs.inventory.index.pom_cache import PomCache
from agentjobs.inventory.index.scan import scan_commit, scan_manifests
from agentjobs.inventory.index.state import IndexState, load_state, new_state, save_state
from agentjobs.inventory.index.update import update_state
from agentjobs.inventory.index.wire import (
    LENGTH,
    DependencyBatch,
    Failed,
    Message,
    Progress,
    Request,
    Result,
    encode_frame,
)
from agentjobs.inventory.manifests.maven.published import PublishedPoms
from agentjobs.inventory.model import Dependency, IndexWarning
from agentjobs.inventory.purl import purl_of

_PROGRESS_SECONDS = 0.2
_MAX_AT_ONCE = 2_000


class _DependencyResult(NamedTuple):
    """`dependencies` is None and `purls` empty if the stored dependencies are unchanged."""

    externals_digest: str
    digest: str
    dependencies: tuple[Dependency, ...] | None
    purls: tuple[str, ...]
    warnings: tuple[IndexWarning, ...]
    missing_poms: tuple[str, ...] = ()


def main() -> None:
    # The data has no reference cycles; looking for some takes a tenth of the time.
    gc.disable()
    # The service stays responsive while this process and its git processes compute.
    os.nice(NICE)
    # If the service has already exited, stdin is closed.
    end_with_parent()
    if not select.select([sys.stdin], (), (), 0)[0]:
        # No request is waiting yet.
        manifests.load_readers()
    request = _read_request(sys.stdin.buffer)
    if request is None:
        return
    _limit_memory(request.memory_mib)
    for response in _respond(request):
        for message in _split_batches(response):
            _send(sys.stdout.buffer, message)


def _respond(request: Request) -> Iterator[Message]:
    """Yields one message; resuming the iterator then does the work that nobody waits for."""
    try:
        yield from _index(request) if request.task == "index" else _read_dependencies(request)
    except GitReadError as error:
        yield Failed(f"The commit could not be read: {error}.")
    except BrokenPipeError:
        raise
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            yield Failed(f"The index could not be built: {error}.")
        else:
            yield Failed(
                f"The index needs more than {request.memory_mib} MiB of memory;"
                " AGENTJOBS_INDEX_MEMORY_MIB sets the limit."
            )


def _split_batches(response: Message) -> Iterator[Message]:
    while isinstance(response, Result) and len(response.dependencies or ()) > _MAX_AT_ONCE:
        dependencies, purls = response.dependencies or (), response.purls
        yield DependencyBatch(dependencies[:_MAX_AT_ONCE], purls[:_MAX_AT_ONCE])
        response = msgspec.structs.replace(
            response, dependencies=dependencies[_MAX_AT_ONCE:], purls=purls[_MAX_AT_ONCE:]
        )
    yield response


def _read_dependencies(request: Request) -> Iterator[Result]:
    git_dir = Path(request.git_dir)
    records = list_files(git_dir, request.commit)
    index = scan_manifests(git_dir, records, Path(request.cache_path))
    combined = _combine(request, index)
    dependencies = _dependencies(request, index, combined, ExternalNames({}, frozenset()))
    result = _result(index, len(index.paths), None, dependencies)
    groups = read_installed_together(git_dir, records, index.manifests)
    yield msgspec.structs.replace(result, installed_together=groups)


def _index(request: Request) -> Iterator[Result]:
    is_updated = yield from _update_index(request)
    if not is_updated:
        yield from _scan_all(request)


def _update_index(request: Request) -> Generator[Result, None, bool]:
    """Updates the last index, if the changes since then allow it."""
    with closing(AnalysisCache(Path(request.cache_path))) as cache:
        state = load_state(cache, request.repo_id, request.indexed_commit)
        if state is None:
            return False
        graph, git_dir = state.graph, Path(request.git_dir)
        if not update_state(git_dir, request.indexed_commit, request.commit, state, cache):
            return False
        new_graph = None if state.graph is graph else state.graph
        dependencies = _update_dependencies(request, state)
        yield _result(state.index, state.file_count, new_graph, dependencies)
        _save(cache, request, state, dependencies)
    return True


def _scan_all(request: Request) -> Iterator[Result]:
    path, combined = Path(request.cache_path), list[_Combined]()

    def combine(manifests_index: PartialIndex) -> None:
        combined.append(_combine(request, manifests_index))

    scan = scan_commit(Path(request.git_dir), request.commit, path, _Progress(), combine)
    with scan as (index, flat):
        graph = pack_flat(flat)
        externals = assembly.external_names_of(index, flat)
        dependencies = _dependencies(request, index, combined[0], externals)
        yield _result(index, len(index.paths), graph, dependencies)
    if request.repo_id:
        with closing(AnalysisCache(path)) as cache:
            _save(cache, request, new_state(index, graph), dependencies)


def _save(
    cache: AnalysisCache, request: Request, state: IndexState, dependencies: _DependencyResult
) -> None:
    state.digest, state.dependency_warnings = dependencies.digest, dependencies.warnings
    state.externals_digest = dependencies.externals_digest
    state.complete_families = assembly.complete_families_of(state.index)
    state.missing_poms = dependencies.missing_poms
    save_state(cache, request.repo_id, request.commit, state)


def _result(
    index: PartialIndex, file_count: int, graph: bytes | None, dependencies: _DependencyResult
) -> Result:
    return Result(
        line_count=index.line_count,
        file_count=file_count,
        languages=assembly.languages_of(index),
        warnings=assembly.warnings_of(index, dependencies.warnings),
        dependencies_digest=dependencies.digest,
        dependencies=dependencies.dependencies,
        purls=dependencies.purls,
        graph=graph,
        configuration=assembly.configuration_of(index),
        missing_poms=dependencies.missing_poms,
    )


def _update_dependencies(request: Request, state: IndexState) -> _DependencyResult:
    """The stored ones, unless a manifest, an external name or the poms that are known changed."""
    is_stored = state.digest and state.digest == request.stored_digest and not state.missing_poms
    complete = assembly.complete_families_of(state.index)
    stored = _DependencyResult(
        state.externals_digest, state.digest, None, (), state.dependency_warnings
    )
    if is_stored and state.new_graph is None and complete == state.complete_families:
        return stored
    graph = state.new_graph or unpack_flat(state.graph)
    externals = assembly.external_names_of(state.index, graph)
    if is_stored and externals.digest == state.externals_digest:
        return stored
    return _dependencies(request, state.index, _combine(request, state.index), externals)


class _Combined(NamedTuple):
    dependencies: tuple[Dependency, ...]
    warnings: tuple[IndexWarning, ...]
    missing_poms: tuple[str, ...]


def _combine(request: Request, index: PartialIndex) -> _Combined:
    if not any(manifest.ecosystem == "Maven" for manifest in index.manifests.values()):
        combined = assembly.dependencies_of(index, PublishedPoms())
        return _Combined(combined.dependencies, combined.warnings, ())
    with closing(AnalysisCache(Path(request.cache_path))) as cache:
        poms = PublishedPoms(PomCache(cache, request.maven_registry).load)
        combined = assembly.dependencies_of(index, poms)
    return _Combined(combined.dependencies, combined.warnings, tuple(poms.missing))


def _dependencies(
    request: Request, index: PartialIndex, combined: _Combined, externals: ExternalNames
) -> _DependencyResult:
    dependencies = mark_imported(combined.dependencies, index.manifests, externals)
    digest = assembly.digest_of(dependencies)
    is_stored = digest == request.stored_digest
    purls = _purls(dependencies) if request.task == "index" and not is_stored else ()
    return _DependencyResult(
        externals_digest=externals.digest,
        digest=digest,
        dependencies=None if is_stored else dependencies,
        purls=purls,
        warnings=combined.warnings,
        missing_poms=combined.missing_poms,
    )


def _purls(dependencies: tuple[Dependency, ...]) -> tuple[str, ...]:
    return tuple(
        purl_of(package.ecosystem, package.name, package.version) for package in dependencies
    )


class _Progress:
    """Sends progress messages at a limited rate."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._done = -1

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done != self._done and (now - self._sent_at >= _PROGRESS_SECONDS or done == total):
            self._sent_at, self._done = now, done
            _send(sys.stdout.buffer, Progress(done, total))


def _limit_memory(memory_mib: int) -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_mib * 1024 * 1024
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard_limit < 0 else min(limit, hard_limit), hard_limit)
    )
    # A crash must not leave a core dump of the repository's files on disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read_request(stream: BinaryIO) -> Request | None:
    """None if the service has exited."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return msgspec.msgpack.decode(stream.read(length), type=Request)


def _send(stream: BinaryIO, message: Message) -> None:
    stream.write(encode_frame(message))
    stream.flush()
