"""Jobs whose agents run in pods, on a small cluster in memory; tests/kubernetes has a real one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.kubernetes.memory_cluster import memory_cluster
from tests.support.service import Api, Service, connected, pull_requests, wait_until

AGENTS = """
[[agents]]
id = "slow"
name = "Slow"
command = ["sh", "-c", "echo counting; echo changed > edited.txt; sleep 2; echo counted"]

[[agents]]
id = "sleepy"
name = "Sleepy"
command = ["sh", "-c", "echo asleep; exec sleep 600"]

[[agents]]
id = "absent"
name = "Absent"
command = ["no-such-program"]
"""


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with memory_cluster() as cluster:
        yield cluster.kubeconfig


@pytest.fixture(scope="module")
def kubernetes(kubeconfig: Path) -> Iterator[ApiClient]:
    client = ApiClient(kubeconfig)
    yield client
    client.close()


@pytest.fixture(scope="module")
def service(
    kubeconfig: Path, kubernetes: ApiClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("pods") / "data"
    data_dir.mkdir()
    (data_dir / "agentjobs.toml").write_text(AGENTS)
    environment = {
        "AGENTJOBS_SANDBOX": "kubernetes",
        "AGENTJOBS_KUBERNETES_NAMESPACE": kubernetes.namespace,
        "AGENTJOBS_KUBERNETES_IMAGE": AGENT_IMAGE,
        "AGENTJOBS_KUBERNETES_USER_NAMESPACES": "off",
        "AGENTJOBS_SLOTS": "2",
        # A busy machine may take long for a restart.
        "AGENTJOBS_LEASE_SECONDS": "60",
        "AGENTJOBS_LEASE_RENEW_SECONDS": "1",
        "KUBECONFIG": str(kubeconfig),
    }
    service = Service(data_dir, environment).start()
    yield service
    assert service.stop() == 0, service.log()


@pytest.fixture(scope="module")
def api(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Api:
    return connected(service, tmp_path_factory.mktemp("pods"))


def pods_of(kubernetes: ApiClient, job_id: str) -> list[str]:
    pods = kubernetes.get(kubernetes.pods, labelSelector=f"agentjobs.dev/job={job_id}")["items"]
    return [pod["metadata"]["name"] for pod in pods]


def test_a_job_whose_pod_is_deleted_runs_again_without_spending_an_attempt(
    api: Api, kubernetes: ApiClient
) -> None:
    job_id = api.create("acme/shop", "sleepy")
    wait_until(lambda: "asleep" in api.log(job_id), "the agent to run")
    (pod,) = pods_of(kubernetes, job_id)
    kubernetes.delete(f"{kubernetes.pods}/{pod}", gracePeriodSeconds=0)
    wait_until(lambda: api.log(job_id).count("asleep") == 2, "the agent to run again")
    assert "the sandbox was lost, and the job is queued again: " in api.log(job_id)
    job = api.wait_status(job_id, "running")
    assert job["attempt"] == 1
    assert api.events(job_id) == ["job.queued", "job.started", "job.queued", "job.started"]
    api.http.post(f"/jobs/{job_id}/cancel")
    api.wait_status(job_id, "cancelled")
    wait_until(lambda: pods_of(kubernetes, job_id) == [], "the pod to be deleted")


def test_the_doctor_describes_the_cluster_and_what_its_image_lacks(service: Service) -> None:
    result = service.try_admin("doctor", "--json")
    findings = json.loads(result.stdout)["findings"]
    sandbox = [finding["message"] for finding in findings if finding["subject"] == "sandbox"]
    assert sandbox[0].startswith("kubernetes v1.")
    assert any("the cluster's network" in message for message in sandbox)
    agents = {
        finding["message"].partition(":")[0].split()[0]: finding["state"]
        for finding in findings
        if finding["subject"] == "agents"
    }
    assert (agents["slow"], agents["absent"]) == ("ok", "problem")
    assert f"`no-such-program` is not in the image {AGENT_IMAGE}" in result.stdout


def test_a_restarted_worker_continues_an_agent_that_runs_once(
    service: Service, api: Api, kubernetes: ApiClient
) -> None:
    job_id = api.create("acme/shop", "slow")
    wait_until(lambda: "counting" in api.log(job_id), "the agent to run")
    (pod,) = pods_of(kubernetes, job_id)
    service.kill()
    assert pods_of(kubernetes, job_id) == [pod]
    service.start()
    api = service.client(service.key())
    job = api.wait_status(job_id, "completed", "failed")
    log = api.log(job_id)
    assert (job["status"], job["attempt"]) == ("completed", 1), log
    assert api.events(job_id) == [
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]
    assert pull_requests(service) == 1
    assert "the worker was restarted, and the agent goes on" in log
    assert [log.count(line) for line in ("slow starts on", "counting", "counted")] == [1, 1, 1]
    wait_until(lambda: pods_of(kubernetes, job_id) == [], "the pod to be deleted")
