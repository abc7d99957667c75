"""One command in a pod, from the first connection until its results are here.

A lost connection changes nothing: after the next one, the supervisor's state says how to continue.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any

from agentjobs_kubernetes.command import limit_text, prepare_message
from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.layer_files import TaskUpload, task_uploads
from agentjobs_kubernetes.messages import Ended
from agentjobs_kubernetes.pod_connection import PodConnection
from agentjobs_kubernetes.pod_status import PodState
from agentjobs_kubernetes.results import receive_artifacts, receive_results
from agentjobs_kubernetes.run_output import RunOutput
from agentjobs_kubernetes.running_pod import RunningPod
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed, Stream
from agentjobs_kubernetes.upload import upload_tree
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxLost, SandboxReport, SandboxTask

KILL_SECONDS = 1.0
UPLOAD_SECONDS = 1_800.0
# A cancelled run must be over within two seconds, also if it had artifacts.
ARTIFACTS_SECONDS = 1.0

_MAX_CHARACTERS = 300

# Gets the Unix time of the start, before the command starts.
OnStart = Callable[[float], Awaitable[None]]


class SupervisedRun:
    """`started_at` is given if the command was started by an earlier worker."""

    def __init__(
        self,
        task: SandboxTask,
        connection: PodConnection,
        output: RunOutput,
        on_start: OnStart,
        started_at: float | None = None,
    ) -> None:
        self._task = task
        self._connection = connection
        self._output = output
        self._on_start = on_start
        self._started_at: float | None = None
        if started_at is not None:
            self._set_start(started_at)
        self._has_way_in = False
        self._is_timed_out = False
        self._losses = 0
        self._has_asked_again = False
        self._before_start: asyncio.Task[None] | None = None

    async def complete(self, before_start: Callable[[], Awaitable[None]]) -> SandboxReport:
        """Raises SandboxError, and what `before_start` and the output's callback raise."""
        following = asyncio.ensure_future(self._follow(before_start))
        over, failed = self._connection.pod.over, self._output.failed
        try:
            futures: set[asyncio.Future[Any]] = {following, over, failed}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                raise failed.result()
            if over.done() and not _has_report(following):
                return self._report_of_pod(over.result())
            return following.result()
        finally:
            tasks = [task for task in (following, self._before_start) if task is not None]
            for task in tasks:
                task.cancel()
            await wait_despite_cancellation(*tasks)

    async def stop(self, *, fetches_artifacts: bool) -> None:
        """Kill what is alive, if the pod can be reached. Takes two seconds at most."""
        try:
            supervisor = self._connection.current
            supervisor.send("kill")
            if self._started_at is not None:
                await _wait_for_end(supervisor, KILL_SECONDS)
            if fetches_artifacts and supervisor.ended.done():
                async with asyncio.timeout(ARTIFACTS_SECONDS):
                    await receive_artifacts(supervisor, self._task)
            supervisor.send("exit")
        except (ConnectionLost, SandboxError, OSError):
            # Whatever is not here by now stays away; the deletion of the pod ends the rest.
            pass
        finally:
            self._connection.close()

    async def _follow(self, before_start: Callable[[], Awaitable[None]]) -> SandboxReport:
        while True:
            try:
                supervisor = await self._connection.connect()
            except SandboxLost:
                if self._remaining_seconds() > 0:
                    raise
                return self._report(timed_out=True)
            if self._before_start is None and self._started_at is None:
                self._before_start = asyncio.ensure_future(_call(before_start))
            try:
                return await self._proceed(supervisor)
            except RequestFailed as error:
                if self._may_ask_again():
                    continue
                reason = ellipsize(single_line(str(error)), _MAX_CHARACTERS)
                raise SandboxError(f"the sandbox did not start: {reason}") from error
            except ConnectionLost:
                self._losses += 1

    def _may_ask_again(self) -> bool:
        """A request of a lost connection may be served after the next hello; this one failed then.

        Another hello says so.
        """
        may = self._losses > 0 and not self._has_asked_again
        self._has_asked_again = True
        return may

    async def _proceed(self, supervisor: Supervisor) -> SandboxReport:
        state = supervisor.hello.state
        if state in ("new", "prepared") and self._is_adopted:
            raise SandboxLost("the command was not started before its worker ended")
        if state == "new":
            await self._prepare(supervisor)
        if state in ("new", "prepared"):
            await self._start(supervisor)
        ended = await self._wait_for_end(supervisor)
        exceeded = await receive_results(supervisor, self._task)
        return self._report(ended, exceeded)

    @property
    def _is_adopted(self) -> bool:
        return self._started_at is not None and self._before_start is None

    async def _prepare(self, supervisor: Supervisor) -> None:
        uploads = [
            asyncio.ensure_future(_upload(supervisor, upload))
            for upload in task_uploads(self._task, supervisor.hello.unpacked)
        ]
        try:
            async with asyncio.timeout(UPLOAD_SECONDS):
                await asyncio.gather(*uploads)
        except TimeoutError:
            raise SandboxLost(f"the pod did not take the files in {UPLOAD_SECONDS:g} s") from None
        except OSError as error:
            raise SandboxError(f"the files for the sandbox cannot be sent: {error}") from error
        finally:
            for upload in uploads:
                upload.cancel()
            await wait_despite_cancellation(*uploads)
        command = prepare_message(self._task, supervisor.hello.architecture)
        try:
            await supervisor.request(command, NoneType)
        except ValueError as error:
            raise SandboxError(f"the command cannot be sent to its pod: {error}") from error

    async def _start(self, supervisor: Supervisor) -> None:
        if self._task.on_running is not None and not self._has_way_in:
            self._has_way_in = True
            self._task.on_running(RunningPod(lambda: self._connection.current))
        assert self._before_start is not None
        await asyncio.shield(self._before_start)
        if self._started_at is None:
            await self._on_start(time.time())
            self._set_start(time.time())
        await supervisor.request({"type": "start"}, NoneType)

    async def _wait_for_end(self, supervisor: Supervisor) -> Ended:
        """Raises ConnectionLost."""
        ended = await _wait_for_end(supervisor, self._remaining_seconds())
        if ended is None:
            self._is_timed_out = True
            supervisor.send("kill")
            ended = await _wait_for_end(supervisor, KILL_SECONDS)
        if ended is None:
            raise ConnectionLost("the supervisor does not end the command")
        return ended

    def _remaining_seconds(self) -> float:
        if self._started_at is None:
            return self._task.timeout_seconds
        return max(0.0, self._started_at + self._task.timeout_seconds - time.monotonic())

    def _set_start(self, unix_time: float) -> None:
        """The clock of the machine may change from now on."""
        self._started_at = time.monotonic() - max(0.0, time.time() - unix_time)

    def _report_of_pod(self, state: PodState) -> SandboxReport:
        """For a pod that the cluster ended. Raises SandboxError if the command is not to blame."""
        limits = self._task.limits
        if state.is_oom_killed:
            return self._report(exceeded=limits.memory_text)
        if state.is_storage_exceeded:
            return self._report(exceeded=limits.workspace_text)
        if state.is_deadline_exceeded:
            return self._report(timed_out=True)
        raise self._connection.pod.explain_loss("it has ended")

    def _report(
        self, ended: Ended | None = None, exceeded: str | None = None, *, timed_out: bool = False
    ) -> SandboxReport:
        duration_ms = round(1000 * (self._task.timeout_seconds - self._remaining_seconds()))
        exit_code = None
        if ended is not None:
            exceeded = limit_text(self._task.limits, ended.exceeded) or exceeded
            timed_out = self._is_timed_out and ended.exit_code is None
            duration_ms = ended.duration_ms
            exit_code = ended.exit_code
        return SandboxReport(
            exit_code=None if exceeded or timed_out else exit_code,
            timed_out=timed_out and not exceeded,
            exceeded=exceeded,
            last_lines=self._output.tail.last_lines(),
            duration_ms=duration_ms,
        )


def _has_report(following: asyncio.Future[SandboxReport]) -> bool:
    """Otherwise the state of the pod says more than a lost connection."""
    if not following.done() or following.cancelled():
        return False
    return not isinstance(following.exception(), SandboxLost)


async def _call(before_start: Callable[[], Awaitable[None]]) -> None:
    await before_start()


async def _upload(supervisor: Supervisor, upload: TaskUpload) -> None:
    path = str(upload.inside)

    async def send_deleted(stream: Stream) -> None:
        await stream.write(b"".join(deleted + b"\0" for deleted in upload.deleted))

    if upload.lower is not None:
        send_lower = functools.partial(upload_tree, source=upload.lower)
        await supervisor.upload(send_lower, "upload", path=path)
    if upload.deleted:
        await supervisor.upload(send_deleted, "remove", path=path)
    send = functools.partial(upload_tree, source=upload.source)
    await supervisor.upload(send, "upload", path=path, track=True)


async def _wait_for_end(supervisor: Supervisor, seconds: float) -> Ended | None:
    """None if it takes longer. Raises ConnectionLost."""
    futures = (supervisor.ended, supervisor.lost)
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if supervisor.ended.done():
        return supervisor.ended.result()
    if supervisor.lost.done():
        raise supervisor.lost.result()
    return None
