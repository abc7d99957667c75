"""Runs each command in a pod of its own on a Kubernetes cluster."""

import asyncio
import contextlib
import dataclasses
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from agentjobs_kubernetes.api_retries import describe_outage
from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.idle_task import SMALL, idle_task
from agentjobs_kubernetes.layer_files import task_uploads
from agentjobs_kubernetes.messages import Programs
from agentjobs_kubernetes.network_policy import ensure_network_policy
from agentjobs_kubernetes.orphans import sweep_regularly
from agentjobs_kubernetes.pod_runs import PodRuns
from agentjobs_kubernetes.runs import RunRecords
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed
from agentjobs_kubernetes.user_namespaces import detect_user_namespaces
from agentjobs_kubernetes.worker_files import copy_worker_files
from agentjobs_worker.sandbox import mounts
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.environment import environment_inside
from agentjobs_worker.sandbox.protocol import (
    BeforeStart,
    OnOutput,
    RootImage,
    SandboxError,
    SandboxLost,
    SandboxReport,
    SandboxTask,
    SandboxUnavailable,
    SandboxUnreachable,
)
from agentjobs_worker.sandbox.start_script import check_command
from agentjobs_worker.sandbox.trials import trial

# The time of a trial: the operator who starts a worker waits for it.
_MAX_TRIAL_SECONDS = 120.0
_MAX_CHECK_SECONDS = 240.0
# An API server that is restarted or busy may take a moment.
PROBE_SECONDS = 5.0
_MAX_PROBE_SECONDS = 10.0


class KubernetesSandbox:
    """`directory` is for this worker alone, and survives its restarts."""

    fetches_images = True

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self._settings = settings
        self._records = RunRecords(directory / "runs")
        self._open_runs: PodRuns | None = None
        self._sweeping: asyncio.Task[None] | None = None
        # A digest never means another image.
        self._programs: dict[tuple[str, str, str], str | None] = {}

    @property
    def cluster(self) -> Cluster:
        """Raises SandboxUnavailable."""
        return self.runs.cluster

    @property
    def runs(self) -> PodRuns:
        """Raises SandboxUnavailable."""
        if self._open_runs is None:
            self._open_runs = PodRuns(Cluster.from_settings(self._settings), self._records)
        return self._open_runs

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await wait_despite_cancellation(self._sweeping)
        if self._open_runs is not None:
            await self._open_runs.close()

    def owner_uid(self, slot: int) -> int | None:  # noqa: ARG002 - required by the protocol
        return None

    async def check(self) -> None:
        await self._reach_cluster(replaces_policy=True)
        try:
            async with asyncio.timeout(_MAX_CHECK_SECONDS):
                report = await self._run_trial()
        except SandboxUnavailable:
            raise
        except TimeoutError as error:
            raise SandboxUnreachable(
                f"the cluster did not run a trial pod within {_MAX_CHECK_SECONDS:g} seconds"
            ) from error
        except SandboxLost as error:
            raise SandboxUnreachable(f"a trial pod did not run in the cluster: {error}") from error
        except SandboxError as error:
            raise SandboxUnavailable(f"a trial pod did not run in the cluster: {error}") from error
        if report.exit_code != 0:
            reason = report.last_lines or "it did not finish"
            raise SandboxUnavailable(f"a trial pod failed: {reason}")
        if self._sweeping is None:
            keep = self.runs.pods_to_keep
            self._sweeping = asyncio.create_task(sweep_regularly(self.cluster, keep))

    async def probe(self) -> None:
        """A single request, as a rule. Raises SandboxUnavailable if this worker cannot use the
        cluster now."""
        await self._reach_cluster(replaces_policy=False)

    async def _reach_cluster(self, *, replaces_policy: bool) -> None:
        try:
            async with asyncio.timeout(_MAX_PROBE_SECONDS):
                await ensure_network_policy(self.cluster, PROBE_SECONDS, replaces=replaces_policy)
        except TimeoutError as error:
            raise SandboxUnreachable(
                f"the Kubernetes API server does not answer within {_MAX_PROBE_SECONDS:g} seconds"
            ) from error
        except SandboxLost as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise SandboxUnreachable(describe_outage(cause)) from error

    async def _run_trial(self) -> SandboxReport:
        await detect_user_namespaces(self.cluster)
        with tempfile.TemporaryDirectory(prefix="agentjobs-check-") as directory:
            task = dataclasses.replace(trial(Path(directory)), limits=SMALL)
            return await self.runs.run(task, _discard, pending_seconds=_MAX_TRIAL_SECONDS)

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
        with _lost_access():
            if task.owner is not None and task.owner.continues:
                return await self.runs.resume(task, task.owner, on_output)
            return await self.runs.run(task, on_output, before_start)

    async def _ask_for_programs(
        self, names: Collection[str], image: RootImage | None, path: str
    ) -> dict[str, str]:
        """Ask a pod that is created for this question alone. Raises SandboxError."""
        task = idle_task("", _MAX_TRIAL_SECONDS, image=image)
        question = {"type": "find_programs", "names": sorted(names), "path": path}
        with _lost_access():
            async with self.runs.connected(task) as connection:
                try:
                    return (await connection.current.request(question, Programs)).paths
                except (ConnectionLost, RequestFailed) as error:
                    raise SandboxError(f"the programs of the image are unknown: {error}") from error


@contextlib.contextmanager
def _lost_access() -> Iterator[None]:
    """A credential that expired since `check`, for instance: no command is to blame for that, and
    another worker may still have access."""
    try:
        yield
    except SandboxUnavailable as error:
        raise SandboxLost(str(error)) from error


async def _with_worker_files(task: SandboxTask) -> SandboxTask:
    try:
        return await asyncio.to_thread(copy_worker_files, task)
    except OSError as error:
        raise SandboxError(f"a file for the sandbox cannot be copied: {error}") from error


def _check_directories(task: SandboxTask) -> None:
    """Refuse a task that no pod can run. Raises SandboxError."""
    if any(port.protocol is None for port in task.ports):
        raise SandboxError("a port of a pod cannot be served by a socket")
    for upload in task_uploads(task):
        for source in (upload.lower, upload.source):
            if source is not None and not source.is_dir():
                raise SandboxError(f"there is no directory {source}")


def _discard(_chunk: bytes) -> None:
    pass
