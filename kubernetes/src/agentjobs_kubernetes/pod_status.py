"""What the status of a pod means for the command that it runs, as messages for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from lightkube.models import core_v1 as core
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from agentjobs_kubernetes.labels import FENCE
from agentjobs_kubernetes.pods import AGENT_CONTAINER, SUPERVISOR_CONTAINER
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_worker.sandbox.protocol import ImageUnavailable, SandboxError, SandboxLost

_MAX_MESSAGE = 600
_ENDED_PHASES = ("Succeeded", "Failed")
_USUAL_WAITING = ("", "ContainerCreating", "PodInitializing")
_PULL_FAILED = "ErrImagePull"
_PULL_REASONS = (_PULL_FAILED, "ImagePullBackOff", "RegistryUnavailable")
_UNUSABLE_REASONS = ("InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_START_REASONS = (
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    *("ContainerCannotRun", "StartError"),
)
# Messages of registries and runtimes after which a retry rarely helps.
_PERMANENT_PULL_ERRORS = (
    *("not found", "notfound", "manifest unknown", "name unknown", "unauthorized"),
    *("authentication required", "authorization failed", "denied", "forbidden"),
    *("no match for platform", "invalid reference"),
)
_OWN_STORAGE = (
    "usage of emptydir volume",
    "ephemeral local storage usage exceeds the total limit",
    "exceeded its local ephemeral storage limit",
)
_DISRUPTIONS = {
    "PreemptionByScheduler": "a pod with a higher priority took its place",
    "DeletionByTaintManager": "its node became unavailable",
    "DeletionByPodGC": "its node is gone",
    "EvictionByEvictionAPI": "it was evicted, as when a node is drained",
    "TerminationByKubelet": "its node ended it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod at one moment.

    `waiting` says why the command does not run yet if that is unusual, otherwise it is empty.
    `failure` is set as soon as the command can no longer run or finish. `pull_refusal` is the
    failure of a pod whose registry has refused the image, unless the next attempt succeeds.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    phase: str = "Pending"
    ip: str = ""
    node_ip: str = ""
    waiting: str = ""
    # An attempt to pull an image has just failed; kubelet waits before the next one.
    has_failed_pull: bool = False
    pull_refusal: ImageUnavailable | SandboxLost | None = None
    # The node has created the pod's namespaces; None: it has not said.
    has_namespaces: bool | None = None
    is_scheduled: bool = False
    is_running: bool = False
    is_oom_killed: bool = False
    # More than the pod may store on its node's disk.
    is_storage_exceeded: bool = False
    is_deadline_exceeded: bool = False
    is_gone: bool = False
    failure: ImageUnavailable | SandboxLost | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.phase in _ENDED_PHASES

    @property
    def fence(self) -> int:
        text = self.annotations.get(FENCE, "")
        return int(text) if text.isdecimal() else 0

    def after_deletion(self) -> "PodState":
        """The last state of a pod that is gone."""
        failure = self.failure
        if failure is None and not self.has_ended:
            failure = SandboxLost("somebody deleted the pod of this run")
        return replace(self, is_gone=True, is_running=False, failure=failure)

    def start_timeout(self, seconds: float) -> SandboxError:
        """The failure of a pod that did not start within that time."""
        if self.pull_refusal is not None:
            return self.pull_refusal
        reason = self.waiting or self._silent_reason
        return SandboxLost(f"the pod did not start within {seconds:g} seconds: {reason}")

    @property
    def _silent_reason(self) -> str:
        if not self.is_scheduled:
            return "the cluster has not chosen a node for it"
        missing = "run its image" if self.has_namespaces else "create its network and volumes"
        return f"its node could not {missing} yet; `kubectl describe pod {self.name}` says more"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Why the command does not run yet, with the meaning of the same fields of PodState."""

    waiting: str
    has_failed_pull: bool = False
    pull_refusal: ImageUnavailable | SandboxLost | None = None
    failure: ImageUnavailable | SandboxLost | None = None


def pod_state(pod: Pod) -> PodState:
    metadata, status = pod.metadata or ObjectMeta(), pod.status or core.PodStatus()
    phase = status.phase or "Pending"
    containers = _containers(status)
    agent = next((container for container in containers if container.name == AGENT_CONTAINER), None)
    problem = _find_problem(pod, status)
    state = PodState(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        phase=phase,
        ip=status.podIP or "",
        node_ip=status.hostIP or "",
        waiting=problem.waiting,
        has_failed_pull=problem.has_failed_pull,
        pull_refusal=problem.pull_refusal,
        has_namespaces=_condition_value(status, "PodReadyToStartContainers"),
        is_scheduled=_condition_value(status, "PodScheduled") is True,
        is_running=phase == "Running" and _is_running(agent) and not metadata.deletionTimestamp,
        is_oom_killed=agent is not None and _terminated(agent).reason == "OOMKilled",
        is_storage_exceeded=status.reason == "Evicted" and _is_own_storage(status.message or ""),
        is_deadline_exceeded=status.reason == "DeadlineExceeded",
        failure=problem.failure,
        created_at=metadata.creationTimestamp,
        ended_at=_terminated(agent).finishedAt if agent else None,
    )
    return state if problem.failure else replace(state, failure=_explain_end(pod, status, state))


def _find_problem(pod: Pod, status: core.PodStatus) -> _Problem:
    for container in _containers(status):
        waiting = container.state.waiting if container.state else None
        terminated = _terminated(container)
        reason = (waiting and waiting.reason) or terminated.reason or ""
        message = _shorten((waiting and waiting.message) or terminated.message or "")
        if reason in _USUAL_WAITING:
            continue
        words = _container_problem(reason, container.image, message)
        if words:
            is_task_image = container.name == AGENT_CONTAINER and _has_task_image(pod)
            failure = (ImageUnavailable if is_task_image else SandboxLost)(words)
            if reason not in _PULL_REASONS:
                return _Problem(waiting=words, failure=failure)
            is_refused = _is_permanent(message, container.image)
            return _Problem(
                waiting=words,
                has_failed_pull=reason == _PULL_FAILED,
                pull_refusal=failure if is_refused else None,
            )
    return _Problem(waiting=_scheduling_problem(status))


def _container_problem(reason: str, image: str, message: str) -> str:
    details = f": {message}" if message else ""
    if reason in _PULL_REASONS or reason in _UNUSABLE_REASONS:
        return f"the image {image} cannot be fetched ({reason}){details}"
    if reason in _START_REASONS:
        return f"the image {image} cannot be started ({reason}){details}"
    return ""


def _scheduling_problem(status: core.PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            message = _shorten(condition.message or condition.reason or "")
            return f"the cluster has no place for the pod: {message}"
    return ""


def _explain_end(pod: Pod, status: core.PodStatus, state: PodState) -> SandboxLost | None:
    """None if the command is to blame."""
    if state.is_oom_killed or state.is_storage_exceeded or state.is_deadline_exceeded:
        return None
    disruption = _disruption(status)
    if disruption:
        return SandboxLost(f"the pod of this run was lost: {disruption}")
    if state.has_ended:
        return _unexpected_end(status) if state.phase == "Failed" else None
    if pod.metadata and pod.metadata.deletionTimestamp:
        return SandboxLost("somebody deleted the pod of this run")
    if state.phase == "Unknown":
        return SandboxLost("the node of this run's pod does not answer")
    return None


def _disruption(status: core.PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            known = _DISRUPTIONS.get(condition.reason or "", condition.reason or "disruption")
            message = _shorten(condition.message or "")
            return f"{known} ({message})" if message else known
    return ""


def _unexpected_end(status: core.PodStatus) -> SandboxLost:
    if status.reason or status.message:
        message = f"{status.reason or 'Failed'}: {_shorten(status.message or 'no message')}"
        return SandboxLost(f"the cluster ended the pod of this run ({message})")
    for container in _containers(status):
        terminated = _terminated(container)
        if terminated.exitCode:
            details = f": {_shorten(terminated.message)}" if terminated.message else ""
            return SandboxLost(
                f"the program {container.name} of this run's pod ended with exit code "
                f"{terminated.exitCode}{details}"
            )
    return SandboxLost("the pod of this run failed without a reason")


def _containers(status: core.PodStatus) -> Iterator[core.ContainerStatus]:
    yield from status.initContainerStatuses or ()
    yield from status.containerStatuses or ()


def _terminated(container: core.ContainerStatus) -> core.ContainerStateTerminated:
    state = container.state.terminated if container.state else None
    return state or core.ContainerStateTerminated(exitCode=0)


def _is_running(container: core.ContainerStatus | None) -> bool:
    return container is not None and container.state is not None and bool(container.state.running)


def _condition_value(status: core.PodStatus, type: str) -> bool | None:
    for condition in status.conditions or ():
        if condition.type == type:
            return condition.status == "True"
    return None


def _has_task_image(pod: Pod) -> bool:
    """Whether the pod runs the task's image, and so needs the supervisor from another one."""
    containers = (pod.spec and pod.spec.initContainers) or ()
    return any(container.name == SUPERVISOR_CONTAINER for container in containers)


def _is_permanent(message: str, image: str) -> bool:
    text = message.replace(image, "").lower()
    return any(error in text for error in _PERMANENT_PULL_ERRORS)


def _is_own_storage(message: str) -> bool:
    return any(text in message.lower() for text in _OWN_STORAGE)


def _shorten(message: str) -> str:
    """Registries and agents write parts of it."""
    return ellipsize(single_line(message), _MAX_MESSAGE)
