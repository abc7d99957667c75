"""Runs each command in a pod of its own on a Kubernetes cluster."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

import msgspec

from agentjobs.sandbox import mounts
from agentjobs.sandbox.child import wait_despite_cancellation
from agentjobs.sandbox.environment import environment_inside
from agentjobs.sandbox.kubernetes.channel_transport import ChannelTransport
from agentjobs.sandbox.kubernetes.channels import Channel, ConnectionLost
from agentjobs.sandbox.kubernetes.cluster import Cluster
from agentjobs.sandbox.kubernetes.cluster_settings import ClusterSettings
from agentjobs.sandbox.kubernetes.connection import OnPort, RequestFailed
from agentjobs.sandbox.kubernetes.credentials import Credentials, new_credentials
from agentjobs.sandbox.kubernetes.followed_pod import FollowedPod
from agentjobs.sandbox.kubernetes.layer_files import task_uploads
from agentjobs.sandbox.kubernetes.messages import Programs
from agentjobs.sandbox.kubernetes.network_policy import ensure_network_policy
from agentjobs.sandbox.kubernetes.orphans import delete_superseded, sweep_regularly
from agentjobs.sandbox.kubernetes.pod_connection import PodConnection
from agentjobs.sandbox.kubernetes.pods import PodRequest
from agentjobs.sandbox.kubernetes.run_output import RunOutput
from agentjobs.sandbox.kubernetes.runs import RunRecords, StoredRun
from agentjobs.sandbox.kubernetes.supervised_run import SupervisedRun
from agentjobs.sandbox.kubernetes.user_namespaces import detect_user_namespaces
from agentjobs.sandbox.kubernetes.worker_files import copy_worker_files
from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.protocol import (
    BeforeStart,
    OnNote,
    OnOutput,
    RootImage,
    RunOwner,
    SandboxError,
    SandboxLost,
    SandboxPort,
    SandboxReport,
    SandboxTask,
    SandboxUnavailable,
)
from agentjobs.sandbox.start_script import check_command
from agentjobs.sandbox.trials import trial

_log = logging.getLogger(__name__)

# A command that does nothing fits everywhere.
_SMALL = Limits(memory_bytes=64 * 1024**2, workspace_bytes=64 * 1024**2, scratch_bytes=16 * 1024**2)
# Of a trial: whoever starts a worker waits for it.
_MAX_TRIAL_SECONDS = 120.0
# How long the records of an earlier worker count, beyond the life of its pods.
_RECORD_MARGIN_SECONDS = 60.0


class KubernetesSandbox:
    """`directory` is for this worker alone, and survives its restarts."""

    fetches_images = True

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self._settings = settings
        self._records = RunRecords(directory / "runs")
        self._created_at = time.monotonic()
        self._active: set[str] = set()
        self._open_cluster: Cluster | None = None
        self._sweeping: asyncio.Task[None] | None = None
        # A digest never means another image.
        self._programs: dict[tuple[str, str, str], str | None] = {}

    @property
    def cluster(self) -> Cluster:
        """Raises SandboxUnavailable."""
        if self._open_cluster is None:
            self._open_cluster = Cluster.from_settings(self._settings)
        return self._open_cluster

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await wait_despite_cancellation(self._sweeping)
        if self._open_cluster is not None:
            await self._open_cluster.close()

    def owner_uid(self, slot: int) -> int | None:  # noqa: ARG002 - required by the protocol
        return None

    async def check(self) -> None:
        cluster = self.cluster
        try:
            await ensure_network_policy(cluster)
            await detect_user_namespaces(cluster)
            with tempfile.TemporaryDirectory(prefix="agentjobs-check-") as directory:
                task = dataclasses.replace(trial(Path(directory)), limits=_SMALL)
                report = await self._run_new(task, _discard, None, _MAX_TRIAL_SECONDS)
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            raise SandboxUnavailable(f"a trial pod did not run in the cluster: {error}") from error
        if report.exit_code != 0:
            reason = report.last_lines or "it did not finish"
            raise SandboxUnavailable(f"a trial pod failed: {reason}")
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(sweep_regularly(cluster, self._pods_to_keep))

    async def check_layers(self, directory: Path) -> None:
        """Layers are copied to pods, so any directory will do."""

    def prepare(self, task: SandboxTask) -> None:
        """Nothing is created ahead: a pod would hold its resources."""

    async def discard(self, workspace: Path) -> None: ...

    async def find_programs(
        self, names: Collection[str], *, image: RootImage | None = None, path: str = ""
    ) -> dict[str, str]:
        reference = image.reference if image is not None else self._settings.image
        keys = {name: (reference, path, name) for name in names}
        if "@" not in reference or not self._programs.keys() >= set(keys.values()):
            paths = await self._ask_for_programs(names, image, path or mounts.PATH)
            self._programs |= {key: paths.get(name) for name, key in keys.items()}
        programs = {name: self._programs[key] for name, key in keys.items()}
        return {name: program for name, program in programs.items() if program is not None}

    async def run(
        self, task: SandboxTask, on_output: OnOutput, before_start: BeforeStart | None = None
    ) -> SandboxReport:
        if task.read_only:
            task = await _with_worker_files(task)
        check_command(task.argv, environment_inside(task))
        _check_directories(task)
        if task.owner is not None and task.owner.continues:
            return await self._continue(task, task.owner, on_output)
        return await self._run_new(task, on_output, before_start, self._settings.pending_seconds)

    async def _run_new(
        self,
        task: SandboxTask,
        on_output: OnOutput,
        before_start: BeforeStart | None,
        pending_seconds: float,
    ) -> SandboxReport:
        credentials = new_credentials()
        request = self._request(task, credentials)
        note = task.on_note or _log.info
        await self._create_pod(request, note)

        async def prepare_start() -> None:
            await self._end_superseded(task.owner)
            if before_start is not None:
                await before_start()

        pod = FollowedPod(self.cluster, request.name, note)
        output = RunOutput(on_output)
        connection = self._connection(pod, credentials, output, task, pending_seconds)

        async def record(started_at: float) -> None:
            if task.owner is not None and task.owner.job_id:
                stored = _stored(connection, credentials, task.owner, started_at)
                await self._save(stored)

        run = SupervisedRun(task, connection, output, record)
        async with self._ending(pod, run):
            return await run.complete(prepare_start)

    async def _create_pod(self, request: PodRequest, on_note: OnNote) -> None:
        try:
            await self.cluster.create_pod(request, on_note)
        except asyncio.CancelledError:
            deleting = asyncio.ensure_future(self.cluster.delete_pod(request.name))
            await wait_despite_cancellation(deleting)
            raise

    async def _continue(
        self, task: SandboxTask, owner: RunOwner, on_output: OnOutput
    ) -> SandboxReport:
        stored = self._records.find(owner.job_id, owner.step, owner.continues)
        if stored is None:
            await self._end_superseded(owner)
            raise SandboxLost("the pod of this run is gone: its worker left no record of it")
        await self._save(msgspec.structs.replace(stored, fence=owner.fence))
        pod = FollowedPod(self.cluster, stored.pod, task.on_note or _log.info)
        output = RunOutput(on_output, may_skip=True)
        connection = self._connection(pod, stored.credentials, output, task, address=stored.address)
        run = SupervisedRun(task, connection, output, _not_again, stored.started_at)
        async with self._ending(pod, run):
            return await run.complete(_nothing)

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
            await self.cluster.delete_pod(name)
            self._records.remove(name)
            self._active.discard(name)

    async def _ask_for_programs(
        self, names: Collection[str], image: RootImage | None, path: str
    ) -> dict[str, str]:
        """In a pod for this question alone. Raises SandboxError."""
        credentials = new_credentials()
        nowhere = Path(os.devnull)
        task = SandboxTask(
            argv=(),
            environment={},
            workspace=nowhere,
            run_dir=nowhere,
            timeout_seconds=_MAX_TRIAL_SECONDS,
            slot=0,
            limits=_SMALL,
            image=image,
        )
        request = self._request(task, credentials)
        await self._create_pod(request, _log.info)
        pod = FollowedPod(self.cluster, request.name, _log.info)
        output = RunOutput(_discard)
        connection = self._connection(pod, credentials, output, task)
        async with self._ending(pod, SupervisedRun(task, connection, output, _not_again)):
            supervisor = await connection.connect()
            question = {"type": "find_programs", "names": sorted(names), "path": path}
            try:
                return (await supervisor.request(question, Programs)).paths
            except (ConnectionLost, RequestFailed) as error:
                raise SandboxError(f"the programs of the image are unknown: {error}") from error

    def _request(self, task: SandboxTask, credentials: Credentials) -> PodRequest:
        on_disk = [mounts.WORKSPACE, mounts.RUN_DIRECTORY]
        on_disk += [layer.inside for layer in task.layers if layer.inside == mounts.HOME]
        directories = [str(path) for path in on_disk]
        variable = credentials.supervisor_variable(self._settings.orphan_seconds, directories)
        return PodRequest.for_task(task, variable)

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
            _serve({port.number: port for port in task.ports}),
            pending_seconds=pending_seconds or self._settings.pending_seconds,
            orphan_seconds=self._settings.orphan_seconds,
            address=address,
        )

    async def _end_superseded(self, owner: RunOwner | None) -> None:
        """Whatever an earlier claim of the job has left must not run beside this command."""
        if owner is None or not owner.job_id:
            return
        self._records.remove_of(owner.job_id, owner.step)
        await delete_superseded(self.cluster, owner, self._active | self._records.pods())

    def _pods_to_keep(self) -> set[str]:
        """The supervisors of an earlier worker's pods have ended after some time."""
        age = time.monotonic() - self._created_at
        if age > self._settings.orphan_seconds + _RECORD_MARGIN_SECONDS:
            for pod in self._records.pods() - self._active:
                self._records.remove(pod)
        return self._records.pods()


def _stored(
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


def _serve(ports: Mapping[int, SandboxPort]) -> OnPort:
    def serve(channel: Channel, address: tuple[str, int]) -> None:
        port = ports.get(address[1])
        if port is None or port.protocol is None:
            channel.close()
        else:
            ChannelTransport(channel, port.protocol(), address).start()

    return serve


async def _with_worker_files(task: SandboxTask) -> SandboxTask:
    try:
        return await asyncio.to_thread(copy_worker_files, task)
    except OSError as error:
        raise SandboxError(f"a file for the sandbox cannot be copied: {error}") from error


def _check_directories(task: SandboxTask) -> None:
    """Before a pod is created for nothing. Raises SandboxError."""
    if any(port.protocol is None for port in task.ports):
        raise SandboxError("a port of a pod cannot be served by a socket")
    for source in (source for upload in task_uploads(task) for source in upload.sources):
        if not source.is_dir():
            raise SandboxError(f"there is no directory {source}")


async def _nothing() -> None: ...


async def _not_again(_started_at: float) -> None:
    raise SandboxError("this command cannot be started")


def _discard(_chunk: bytes) -> None:
    pass
