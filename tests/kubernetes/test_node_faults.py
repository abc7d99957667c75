"""The faults that other tests use do to a pod what they say."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubernetes import node_faults
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import BUSYBOX_IMAGE
from tests.kubernetes.namespaces import CommandFailed, wait_for
from tests.kubernetes.pods import DEFAULT, run_pod, status, wait_for_phase

SLEEP = {"image": BUSYBOX_IMAGE, "command": ["sleep", "100000"]}


@pytest.fixture
def pod(cluster: Cluster) -> Iterator[str]:
    run_pod(cluster, "victim", SLEEP, terminationGracePeriodSeconds=1)
    wait_for_phase(cluster, "victim", "Running")
    yield "victim"
    cluster.kubectl("delete", "pod", "victim", "--now", "--ignore-not-found")


def is_gone(cluster: Cluster, name: str) -> bool:
    return not cluster.kubectl("get", "pod", name, "--ignore-not-found")


def conditions(answer: dict[str, Any]) -> set[str]:
    return {each.get("reason", "") for each in answer["conditions"]}


def test_a_deleted_pod_goes(cluster: Cluster, pod: str) -> None:
    node_faults.delete_pod(cluster, pod)
    wait_for(lambda: is_gone(cluster, pod), "the pod is still there")


def test_an_evicted_pod_goes(cluster: Cluster, pod: str) -> None:
    node_faults.evict(cluster, pod)
    wait_for(lambda: is_gone(cluster, pod), "the pod is still there")


def test_a_preempted_pod_goes(cluster: Cluster) -> None:
    container = {**SLEEP, "resources": {"requests": {"cpu": "100m"}}}
    run_pod(cluster, "small", container, terminationGracePeriodSeconds=0)
    wait_for_phase(cluster, "small", "Running")
    with node_faults.preempted(cluster):
        wait_for(lambda: is_gone(cluster, "small"), "the pod is still there")


def test_memory_pressure_evicts(cluster: Cluster, pod: str) -> None:
    with node_faults.memory_pressure(cluster):
        wait_for(lambda: status(cluster, pod)["phase"] == "Failed", "the pod still runs")
        assert status(cluster, pod)["reason"] == "Evicted"
    run_pod(cluster, "afterwards", {"image": BUSYBOX_IMAGE, "command": ["true"]})
    wait_for_phase(cluster, "afterwards", "Succeeded")


def test_pods_of_a_node_that_does_not_answer_are_deleted(cluster: Cluster, pod: str) -> None:
    path = "jsonpath={.metadata.deletionTimestamp}"
    with node_faults.stopped_kubelet(cluster):
        wait_for(lambda: cluster.kubectl("get", "pod", pod, "-o", path), "it is not deleted")
        assert status(cluster, pod)["phase"] == "Running"
    wait_for(lambda: is_gone(cluster, pod), "the pod is still there")


def test_a_pod_outlives_the_api_server(cluster: Cluster, pod: str) -> None:
    identifier = status(cluster, pod)["containerStatuses"][0]["containerID"]
    with node_faults.stopped_api_server(cluster), pytest.raises(CommandFailed):
        cluster.kubectl("get", "pod", pod, "--request-timeout=2s")
    assert status(cluster, pod)["containerStatuses"][0]["containerID"] == identifier


@pytest.mark.parametrize("kill", [node_faults.kill_shim, node_faults.kill_container])
def test_a_pod_whose_processes_were_killed_fails(cluster: Cluster, pod: str, kill: Any) -> None:
    kill(cluster, pod)
    ended = wait_for_phase(cluster, pod, "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] != 0


def test_an_image_that_nobody_serves_is_not_pulled(cluster: Cluster) -> None:
    run_pod(cluster, "no-image", {"image": node_faults.UNPULLABLE_IMAGE})

    def reason() -> str:
        statuses = status(cluster, "no-image").get("containerStatuses", [{}])
        text: str = statuses[0].get("state", {}).get("waiting", {}).get("reason", "")
        return text

    wait_for(lambda: reason() == "ErrImagePull", "the pull did not fail")
    cluster.kubectl("delete", "pod", "no-image", "--now", f"--namespace={DEFAULT}")
