"""The process that reads one commit of a repository: a request comes in, messages go out.

Repositories are hostile: whatever one does to this process, the service only hears of its end.
Lean to import: its start is part of every index.
"""

import errno
import gc
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec

from agentjobs.git.blocking import GitReadError
from agentjobs.repos.index import assembly
from agentjobs.repos.index.cache import FactsCache
from agentjobs.repos.index.graph_data import pack_graph
from agentjobs.repos.index.lifeline import end_with_parent
from agentjobs.repos.index.model import Dependency
from agentjobs.repos.index.portion import Portion
from agentjobs.repos.index.state import keep_state, keep_update, load_state
from agentjobs.repos.index.survey import survey, survey_manifests
from agentjobs.repos.index.update import update
from agentjobs.repos.index.wire import (
    LENGTH,
    Message,
    MoreDependencies,
    Progress,
    Refused,
    Request,
    Result,
    framed,
)

_PROGRESS_SECONDS = 0.2
_MOST_AT_ONCE = 2_000


def main() -> None:
    # Facts hold no cycles: looking for some among so many objects is a tenth of the time.
    gc.disable()
    # A service that is gone already has closed our input.
    end_with_parent()
    request = _received(sys.stdin.buffer)
    if request is None:
        return
    _limit_memory(request.memory_mib)
    for message in _in_parts(_answer(request)):
        _send(sys.stdout.buffer, message)


def _answer(request: Request) -> Message:
    try:
        return _index(request) if request.task == "index" else _read_dependencies(request)
    except GitReadError as error:
        return Refused(f"The commit could not be read: {error}.")
    except BrokenPipeError:
        raise
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            return Refused(f"The index could not be made: {error}.")
        return Refused(
            f"The index needs more than {request.memory_mib} MiB of memory;"
            " AGENTJOBS_INDEX_MEMORY_MIB sets how much it may have."
        )


def _in_parts(answer: Message) -> Iterator[Message]:
    while isinstance(answer, Result) and len(answer.dependencies or ()) > _MOST_AT_ONCE:
        every, purls = answer.dependencies or (), answer.purls
        yield MoreDependencies(every[:_MOST_AT_ONCE], purls[:_MOST_AT_ONCE])
        answer = msgspec.structs.replace(
            answer, dependencies=every[_MOST_AT_ONCE:], purls=purls[_MOST_AT_ONCE:]
        )
    yield answer


def _read_dependencies(request: Request) -> Result:
    whole = survey_manifests(Path(request.git_dir), request.commit, Path(request.cache_path))
    return _result(request, whole, len(whole.paths), None)


def _index(request: Request) -> Result:
    return _updated(request) or _surveyed(request)


def _updated(request: Request) -> Result | None:
    """From the last index, when what was pushed since allows it."""
    with closing(FactsCache(Path(request.cache_path))) as cache:
        state = load_state(cache, request.repo_id, request.indexed_commit)
        if state is None:
            return None
        graph, git_dir = state.graph, Path(request.git_dir)
        if not update(git_dir, request.indexed_commit, request.commit, state, cache):
            return None
        keep_update(cache, request.repo_id, request.commit, state)
    is_same = state.graph is graph
    return _result(request, state.whole, state.file_count, None if is_same else state.graph)


def _surveyed(request: Request) -> Result:
    path = Path(request.cache_path)
    with survey(Path(request.git_dir), request.commit, path, _Progress()) as whole:
        graph = pack_graph(whole.graph)
        result = _result(request, whole, len(whole.paths), graph)
    if request.repo_id:
        with closing(FactsCache(path)) as cache:
            keep_state(cache, request.repo_id, request.commit, whole, graph)
    return result


def _result(request: Request, whole: Portion, file_count: int, graph: bytes | None) -> Result:
    combined = assembly.dependencies_of(whole)
    digest = assembly.digest_of(combined.dependencies)
    is_known = digest == request.known_dependencies
    return Result(
        line_count=whole.line_count,
        file_count=file_count,
        languages=assembly.languages_of(whole),
        warnings=assembly.warnings_of(whole, combined.warnings),
        dependencies_digest=digest,
        dependencies=None if is_known else combined.dependencies,
        purls=() if is_known or request.task != "index" else _purls(combined.dependencies),
        graph=graph,
        configuration=assembly.configuration_of(whole),
    )


def _purls(dependencies: tuple[Dependency, ...]) -> tuple[str, ...]:
    # Late: most indexes find the dependencies they found before.
    from agentjobs.repos.purl import purl_of  # noqa: PLC0415 - see above

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
