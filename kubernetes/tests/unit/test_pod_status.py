"""What statuses that a real cluster wrote mean for a run."""

import copy
from functools import cache
from typing import Any

import msgspec
import pytest
from lightkube.resources.core_v1 import Pod

from agentjobs_kubernetes.pod_status import PodState, pod_state
from agentjobs_worker.sandbox.protocol import ImageUnavailable, SandboxLost
from tests.support.paths import DATA

RECORDS = DATA / "kubernetes_pods.json"


@cache
def records() -> dict[str, dict[str, Any]]:
    return msgspec.json.decode(RECORDS.read_bytes(), type=dict[str, dict[str, Any]])


def recorded(name: str, **status: Any) -> PodState:
    pod = copy.deepcopy(records()[name])
    pod["status"] |= status
    return pod_state(Pod.from_dict(pod))


def test_a_running_pod_has_an_address_and_nothing_to_say() -> None:
    state = recorded("running")
    assert (state.phase, state.is_running, state.ip) == ("Running", True, "10.70.1.14")
    assert (state.waiting, state.failure, state.is_gone) == ("", None, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("image_never", "cannot be fetched (ErrImageNeverPull): Container image"),
        ("invalid_image_name", "cannot be fetched (InvalidImageName): Failed to apply"),
        ("start_error", "cannot be started (StartError): failed to create containerd task"),
    ],
)
def test_an_image_that_can_never_start_fails_the_environment(name: str, message: str) -> None:
    failure = recorded(name).failure
    assert isinstance(failure, ImageUnavailable)
    assert message in str(failure)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("image_not_found", "cannot be fetched (ErrImagePull): rpc error: code = NotFound"),
        ("image_not_found_backoff", "cannot be fetched (ImagePullBackOff): Back-off pulling"),
    ],
)
def test_an_image_that_a_registry_refuses_gets_another_attempt(name: str, words: str) -> None:
    state = recorded(name)
    assert state.failure is None
    assert isinstance(state.pull_refusal, ImageUnavailable)
    assert words in str(state.pull_refusal)
    assert state.has_failed_pull == (name == "image_not_found")
    assert state.start_timeout(600) is state.pull_refusal


def test_a_registry_that_does_not_answer_is_waited_for() -> None:
    state = recorded("err_image_pull")
    assert (state.failure, state.pull_refusal) == (None, None)
    assert "connection refused" in state.waiting
    timeout = state.start_timeout(600)
    assert isinstance(timeout, SandboxLost)
    assert "did not start within 600 seconds: the image 127.0.0.1:1/nothing:1" in str(timeout)


def test_the_name_of_an_image_does_not_decide_whether_to_wait() -> None:
    state = copy.deepcopy(records()["err_image_pull"])
    text = msgspec.json.encode(state).replace(b"nothing:1", b"denied:1")
    assert pod_state(msgspec.json.decode(text, type=Pod)).pull_refusal is None


def test_the_default_image_is_not_the_fault_of_an_environment() -> None:
    state = recorded("default_image_absent")
    assert "cannot be fetched" in state.waiting
    assert isinstance(state.start_timeout(600), SandboxLost)
    assert isinstance(recorded("config_error").failure, SandboxLost)


def test_the_scheduler_says_why_there_is_no_place() -> None:
    state = recorded("unschedulable")
    assert state.failure is None
    assert "1 node(s) didn't match Pod's node affinity/selector" in state.waiting
    timeout = state.start_timeout(5)
    assert isinstance(timeout, SandboxLost)
    assert "the cluster has no place for the pod" in str(timeout)


def test_a_node_that_creates_no_namespaces_is_named_in_the_timeout() -> None:
    state = recorded("user_namespace")
    assert (state.is_scheduled, state.has_namespaces, state.waiting) == (True, False, "")
    assert "could not create its network and volumes yet" in str(state.start_timeout(5))


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("oom_killed", "is_oom_killed"),
        ("evicted_own_volume", "is_storage_exceeded"),
        ("deadline", "is_deadline_exceeded"),
    ],
)
def test_a_limit_that_the_command_exceeded_is_not_a_loss(name: str, claim: str) -> None:
    state = recorded(name)
    claims = ("is_oom_killed", "is_storage_exceeded", "is_deadline_exceeded")
    assert [each for each in claims if getattr(state, each)] == [claim]
    assert state.failure is None
    assert state.has_ended
    assert state.ended_at is not None


def test_a_container_over_its_storage_limit_exceeded_it() -> None:
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "
    assert recorded("evicted_own_volume", message=message).is_storage_exceeded


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("preempted", "a pod with a higher priority took its place (default-scheduler: preempting"),
        ("evicted_by_api", "it was evicted, as when a node is drained (Eviction API: evicting)"),
        ("terminating", "somebody deleted the pod"),
        ("exit_code", "ended with exit code 3: cannot listen"),
    ],
)
def test_what_the_command_is_not_to_blame_for_loses_the_run(name: str, message: str) -> None:
    state = recorded(name)
    assert isinstance(state.failure, SandboxLost)
    assert message in str(state.failure)
    assert not state.is_running


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi"),
        ("Terminated", "Pod was terminated in response to imminent node shutdown."),
        ("NodeLost", "Node n1 which was running pod p is unresponsive"),
        ("OutOfmemory", "Node didn't have enough resource: memory"),
        ("UnexpectedAdmissionError", "Allocate failed"),
    ],
)
def test_a_node_that_ends_a_pod_for_its_own_reasons_loses_the_run(
    reason: str, message: str
) -> None:
    state = recorded("exit_code", reason=reason, message=message, containerStatuses=[])
    assert isinstance(state.failure, SandboxLost)
    assert f"({reason}: {message})" in str(state.failure)
    assert not state.is_storage_exceeded


def test_a_pod_that_ended_well_failed_at_nothing() -> None:
    state = recorded("succeeded")
    assert state.has_ended
    assert state.failure is None
    assert state.after_deletion().failure is None


def test_a_pod_that_vanishes_while_it_runs_is_lost() -> None:
    state = recorded("running").after_deletion()
    assert (state.is_gone, state.is_running) == (True, False)
    assert isinstance(state.failure, SandboxLost)


def test_long_messages_of_the_cluster_are_shortened() -> None:
    state = recorded("exit_code", reason="Evicted", message="x" * 10_000)
    assert len(str(state.failure)) < 1_000


def test_messages_of_the_cluster_are_one_printable_line() -> None:
    state = recorded("exit_code", reason="Evicted", message="a\x1b[2J\n\x00b\u202ec")
    assert str(state.failure).isprintable()
    assert "a[2J bc" in str(state.failure)


def test_a_pod_without_any_status_waits() -> None:
    state = pod_state(Pod.from_dict({"metadata": {"name": "p"}}))
    assert (state.phase, state.ip, state.failure, state.fence) == ("Pending", "", None, 0)


def test_a_pod_without_any_field_is_no_reason_to_fail() -> None:
    state = pod_state(Pod())
    assert (state.name, state.failure, state.fence) == ("", None, 0)
