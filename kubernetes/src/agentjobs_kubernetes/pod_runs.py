"""The runs of one worker in pods: new ones, and those that an earlier worker left."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable

import msgspec

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.connection import OnPort
from agentjobs_kubernetes.credentials import Credentials, new_credentials
from agentjobs_kubernetes.followed_pod import FollowedPod
from agentjobs_kubernetes.idle_task import idle_task
from agentjobs_kubernetes.layer_cache import LayerCache
from agentjobs_kubernetes.orphans import delete_superseded
from agentjobs_kubernetes.pod_connection import PodConnection
from agentjobs_kubernetes.pods import CachedLayer, PodRequest, pod_name
from agentjobs_kubernetes.run_output import RunOutput
from agentjobs_kubernetes.runs import RunRecords, StoredRun
from agentjobs_kubernetes.supervised_run import UPLOAD_SECONDS, SupervisedRun
from agentjobs_runtime.sandboxes import directories
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.protocol import (
    BeforeStart,
    OnNote,
    OnOutput,
    RunOwner,
    SandboxError,
    SandboxLost,
    SandboxPort,
    SandboxReport,
    SandboxTask,
)

_log = logging.getLogger(__name__)

# No command is alive by then.
_DELETE_SECONDS = 0.5
# How long the records of an earlier worker count, beyond the life of its pods.
_RECORD_MARGIN_SECONDS = 60.0


class PodRuns:
    def __init__(self, cluster: Cluster, records: RunRecords) -> None:
        self.cluster = cluster
        self._settings = cluster.settings
        self._records = records
        self._created_at = time.monotonic()
        self._active: set[str] = set()
        self._cache = LayerCache(cluster.settings, self._connect_to_cache)

    async def close(self) -> None:
        await self._cache.close()
        await self.cluster.close()

    async def run(
        self,
        task: SandboxTask,
        on_output: OnOutput,
        before_start: BeforeStart | None = None,
        *,
        pending_seconds: float | None = None,
    ) -> SandboxReport:
        """Run the task in a new pod. Raises SandboxError, and what the callbacks raise."""
        credentials = new_credentials()
        cached = self._cache.find(task)
        request = self._request(task, credentials, cached)
        note = task.on_note or _log.info
        await self._create_pod(request, note)

        async def prepare_start() -> None:
            await self._end_superseded(task.owner)
            if before_start is not None:
                await before_start()

        pod = FollowedPod(self.cluster, request.name, note)
        output = RunOutput(on_output)
        connection = self._connection(pod, credentials, output, task, pending_seconds)

        async def save_record(started_at: float) -> None:
            self._cache.store_missing(task, cached, connection.current.hello.unpacked)
            if task.owner is not None and task.owner.job_id:
                await self._save(_new_record(connection, credentials, task.owner, started_at))

        run = SupervisedRun(task, connection, output, save_record)
        try:
            async with self._ending(pod, run):
                return await run.complete(prepare_start)
        except SandboxLost:
            if cached:
                self._cache.pause()
            raise

    async def _create_pod(self, request: PodRequest, on_note: OnNote) -> None:
        try:
            await self.cluster.create_pod(request, on_note)
        except asyncio.CancelledError:
            deleting = asyncio.ensure_future(self.cluster.delete_pod(request.name))
            await wait_despite_cancellation(deleting)
            raise

    async def resume(
        self, task: SandboxTask, owner: RunOwner, on_output: OnOutput
    ) -> SandboxReport:
        """Continue in the pod that an earlier worker left. Raises SandboxLost if it is gone."""
        record = self._records.find(owner.job_id, owner.step, owner.continues)
        if record is None:
            await self._end_superseded(owner)
            raise SandboxLost("the pod of this run is gone: its worker left no record of it")
        await self._save(msgspec.structs.replace(record, fence=owner.fence))
        pod = FollowedPod(self.cluster, record.pod, task.on_note or _log.info)
        output = RunOutput(on_output, may_skip=True)
        connection = self._connection(pod, record.credentials, output, task, address=record.address)
        run = SupervisedRun(task, connection, output, _not_again, record.started_at)
        async with self._ending(pod, run):
            return await run.complete(_nothing)

    @contextlib.asynccontextmanager
    async def connected(
        self,
        task: SandboxTask,
        *,
        writes_cache: bool = False,
        pending_seconds: float | None = None,
    ) -> AsyncIterator[PodConnection]:
        """A pod as the task has it, in which nothing runs yet. Raises SandboxError."""
        credentials = new_credentials()
        request = self._request(task, credentials, writes_cache=writes_cache)
        await self._create_pod(request, _log.info)
        pod = FollowedPod(self.cluster, request.name, _log.info)
        output = RunOutput(_discard)
        connection = self._connection(pod, credentials, output, task, pending_seconds)
        async with self._ending(pod, SupervisedRun(task, connection, output, _not_again)):
            await connection.connect()
            yield connection

    def _connect_to_cache(
        self, task: SandboxTask
    ) -> contextlib.AbstractAsyncContextManager[PodConnection]:
        idle = idle_task("cache", UPLOAD_SECONDS, owner=task.owner, placement=task.placement)
        return self.connected(idle, writes_cache=True)

    async def _save(self, run: StoredRun) -> None:
        """Raises SandboxError."""
        try:
            await asyncio.to_thread(self._records.save, run)
        except OSError as error:
            raise SandboxError(f"the record of a run cannot be written: {error}") from error

    @contextlib.asynccontextmanager
    async def _ending(self, pod: FollowedPod, run: SupervisedRun) -> AsyncIterator[None]:
        """Leaves neither a process nor a pod, however the run ends."""
        name = pod.state.name
        self._active.add(name)
        fetches_artifacts = False
        try:
            yield
        except asyncio.CancelledError:
            fetches_artifacts = True
            raise
        finally:
            ending = asyncio.ensure_future(self._end(pod, run, fetches_artifacts=fetches_artifacts))
            await wait_despite_cancellation(ending)
            ending.result()

    async def _end(self, pod: FollowedPod, run: SupervisedRun, *, fetches_artifacts: bool) -> None:
        name = pod.state.name
        try:
            await run.stop(fetches_artifacts=fetches_artifacts)
            await pod.close()
        finally:
            # Continues in the background, also if the API server is away.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DELETE_SECONDS):
                    await self.cluster.delete_pod(name)
            self._records.remove(name)
            self._active.discard(name)

    def _request(
        self,
        task: SandboxTask,
        credentials: Credentials,
        cached: tuple[CachedLayer, ...] = (),
        *,
        writes_cache: bool = False,
    ) -> PodRequest:
        on_disk = [directories.WORKSPACE, directories.RUN_DIRECTORY]
        on_disk += [layer.inside for layer in task.layers if layer.inside == directories.HOME]
        paths = [str(path) for path in on_disk]
        variable = credentials.supervisor_variable(self._settings.orphan_seconds, paths)
        return PodRequest(
            name=pod_name(task.owner.step if task.owner else ""),
            supervisor=variable,
            task=task,
            cached=cached,
            writes_cache=writes_cache,
        )

    def _connection(
        self,
        pod: FollowedPod,
        credentials: Credentials,
        output: RunOutput,
        task: SandboxTask,
        pending_seconds: float | None = None,
        address: str = "",
    ) -> PodConnection:
        return PodConnection(
            pod,
            credentials,
            output,
            _serve_ports(task.ports),
            pending_seconds=pending_seconds or self._settings.pending_seconds,
            orphan_seconds=self._settings.orphan_seconds,
            address=address,
        )

    async def _end_superseded(self, owner: RunOwner | None) -> None:
        """Whatever an earlier claim of the job has left must not run beside this command."""
        if owner is None or not owner.job_id:
            return
        self._records.remove_step(owner.job_id, owner.step)
        await delete_superseded(self.cluster, owner, self._active | self._records.pods())

    def pods_to_keep(self) -> set[str]:
        """The supervisors of an earlier worker's pods have ended after some time."""
        age = time.monotonic() - self._created_at
        if age > self._settings.orphan_seconds + _RECORD_MARGIN_SECONDS:
            for pod in self._records.pods() - self._active:
                self._records.remove(pod)
        return self._records.pods()


def _serve_ports(ports: Iterable[SandboxPort]) -> OnPort:
    """Each connection of the agent gets a protocol of its port."""
    protocols = {port.number: port.protocol for port in ports}

    def serve(address: tuple[str, int]) -> asyncio.BaseProtocol | None:
        protocol = protocols.get(address[1])
        return None if protocol is None else protocol()

    return serve


def _new_record(
    connection: PodConnection, credentials: Credentials, owner: RunOwner, started_at: float
) -> StoredRun:
    return StoredRun(
        pod=connection.pod.state.name,
        address=connection.address,
        job_id=owner.job_id,
        step=owner.step,
        fence=owner.fence,
        started_at=started_at,
        credentials=credentials,
    )


async def _nothing() -> None: ...


async def _not_again(_started_at: float) -> None:
    raise SandboxError("this command cannot be started")


def _discard(_chunk: bytes) -> None:
    pass
