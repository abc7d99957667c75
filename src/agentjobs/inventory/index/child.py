"""The process that reads one commit of a repository: a request comes in, messages go out.

Repositories are hostile: whatever one does to this process, the service only hears of its end.
Lean to import: its start is part of every index.
"""

import errno
import gc
import resource
import select
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from agentjobs.git.blocking import GitReadError
from agentjobs.inventory import manifests
from agentjobs.inventory.graph_data import pack_flat
from agentjobs.inventory.index import assembly
from agentjobs.inventory.index.cache import FactsCache
from agentjobs.inventory.index.lifeline import end_with_parent
from agentjobs.inventory.index.partial_index import Portion
from agentjobs.inventory.index.scan import survey, survey_manifests
from agentjobs.inventory.index.state import State, keep_state, load_state, state_of
from agentjobs.inventory.index.update import update
from agentjobs.inventory.index.wire import (
    LENGTH,
    Message,
    MoreDependencies,
    Progress,
    Refused,
    Request,
    Result,
    framed,
)
from agentjobs.inventory.model import Dependency, IndexWarning
from agentjobs.inventory.purl import purl_of

_PROGRESS_SECONDS = 0.2
_MAX_AT_ONCE = 2_000


class _Dependencies(NamedTuple):
    """None, and without purls, if they are those that are stored."""

    digest: str
    dependencies: tuple[Dependency, ...] | None
    purls: tuple[str, ...]
    warnings: tuple[IndexWarning, ...]


def main() -> None:
    # Facts hold no cycles: looking for some among so many objects is a tenth of the time.
    gc.disable()
    # A service that is gone already has closed our input.
    end_with_parent()
    if not select.select([sys.stdin], (), (), 0)[0]:
        # Nobody waits for this process yet.
        manifests.load_readers()
    request = _received(sys.stdin.buffer)
    if request is None:
        return
    _limit_memory(request.memory_mib)
    for answer in _answers(request):
        for message in _in_parts(answer):
            _send(sys.stdout.buffer, message)


def _answers(request: Request) -> Iterator[Message]:
    """One; what is asked for behind it is what nobody has to wait for."""
    try:
        yield from _index(request) if request.task == "index" else _read_dependencies(request)
    except GitReadError as error:
        yield Refused(f"The commit could not be read: {error}.")
    except BrokenPipeError:
        raise
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            yield Refused(f"The index could not be made: {error}.")
        else:
            yield Refused(
                f"The index needs more than {request.memory_mib} MiB of memory;"
                " AGENTJOBS_INDEX_MEMORY_MIB sets how much it may have."
            )


def _in_parts(answer: Message) -> Iterator[Message]:
    while isinstance(answer, Result) and len(answer.dependencies or ()) > _MAX_AT_ONCE:
        every, purls = answer.dependencies or (), answer.purls
        yield MoreDependencies(every[:_MAX_AT_ONCE], purls[:_MAX_AT_ONCE])
        answer = msgspec.structs.replace(
            answer, dependencies=every[_MAX_AT_ONCE:], purls=purls[_MAX_AT_ONCE:]
        )
    yield answer


def _read_dependencies(request: Request) -> Iterator[Result]:
    whole = survey_manifests(Path(request.git_dir), request.commit, Path(request.cache_path))
    yield _result(whole, len(whole.paths), None, _dependencies(request, whole))


def _index(request: Request) -> Iterator[Result]:
    is_updated = yield from _updated(request)
    if not is_updated:
        yield from _surveyed(request)


def _updated(request: Request) -> Generator[Result, None, bool]:
    """From the last index, when what was pushed since allows it."""
    with closing(FactsCache(Path(request.cache_path))) as cache:
        state = load_state(cache, request.repo_id, request.indexed_commit)
        if state is None:
            return False
        graph, git_dir = state.graph, Path(request.git_dir)
        if not update(git_dir, request.indexed_commit, request.commit, state, cache):
            return False
        now = None if state.graph is graph else state.graph
        found = _found_before(request, state) or _dependencies(request, state.whole)
        yield _result(state.whole, state.file_count, now, found)
        _keep(cache, request, state, found)
    return True


def _surveyed(request: Request) -> Iterator[Result]:
    path, found = Path(request.cache_path), list[_Dependencies]()

    def note(known: Portion) -> None:
        found.append(_dependencies(request, known))

    with survey(Path(request.git_dir), request.commit, path, _Progress(), note) as (whole, flat):
        graph = pack_flat(flat)
        yield _result(whole, len(whole.paths), graph, *found)
    if request.repo_id:
        with closing(FactsCache(path)) as cache:
            _keep(cache, request, state_of(whole, graph), *found)


def _keep(cache: FactsCache, request: Request, state: State, found: _Dependencies) -> None:
    state.digest, state.dependency_warnings = found.digest, found.warnings
    keep_state(cache, request.repo_id, request.commit, state)


def _result(whole: Portion, file_count: int, graph: bytes | None, found: _Dependencies) -> Result:
    return Result(
        line_count=whole.line_count,
        file_count=file_count,
        languages=assembly.languages_of(whole),
        warnings=assembly.warnings_of(whole, found.warnings),
        dependencies_digest=found.digest,
        dependencies=found.dependencies,
        purls=found.purls,
        graph=graph,
        configuration=assembly.configuration_of(whole),
    )


def _found_before(request: Request, state: State) -> _Dependencies | None:
    """If no manifest differs, and they are those that are stored."""
    if not state.digest or state.digest != request.known_dependencies:
        return None
    return _Dependencies(state.digest, None, (), state.dependency_warnings)


def _dependencies(request: Request, whole: Portion) -> _Dependencies:
    combined = assembly.dependencies_of(whole)
    every, digest = combined.dependencies, assembly.digest_of(combined.dependencies)
    if digest == request.known_dependencies:
        return _Dependencies(digest, None, (), combined.warnings)
    purls = _purls(every) if request.task == "index" else ()
    return _Dependencies(digest, every, purls, combined.warnings)


def _purls(dependencies: tuple[Dependency, ...]) -> tuple[str, ...]:
    return tuple(purl_of(one.ecosystem, one.name, one.version) for one in dependencies)


class _Progress:
    """Says how far it is, but not too often."""

    def __init__(self) -> None:
        self._said_at = 0.0
        self._done = -1

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done != self._done and (now - self._said_at >= _PROGRESS_SECONDS or done == total):
            self._said_at, self._done = now, done
            _send(sys.stdout.buffer, Progress(done, total))


def _limit_memory(memory_mib: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = memory_mib * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))
    # A crash leaves no image of a stranger's files on the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _received(stream: BinaryIO) -> Request | None:
    """None when the service is gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return msgspec.msgpack.decode(stream.read(length), type=Request)


def _send(stream: BinaryIO, message: Message) -> None:
    stream.write(framed(message))
    stream.flush()
