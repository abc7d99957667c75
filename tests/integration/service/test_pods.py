"""Jobs whose agents run in pods, on a small cluster in memory; tests/kubernetes has a real one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.kubernetes.memory_cluster import memory_cluster
from tests.support.model_server import model_process
from tests.support.service import Api, Service, pull_requests, sample_repository, wait_until

AGENTS = """
[[agents]]
id = "slow"
name = "Slow"
command = ["python3", "slow.py"]
model_api = "openai"
model_url = "MODEL_URL"

[[agents]]
id = "sleepy"
name = "Sleepy"
command = ["sh", "-c", "echo asleep; exec sleep 600"]

[[agents]]
id = "absent"
name = "Absent"
command = ["no-such-program"]
"""
# Calls its model before and after a while. No worker may be there to answer.
SLOW = """
import json, os, time
from urllib import error, request

opener = request.build_opener(request.ProxyHandler({}))

def ask():
    body = {"model": "small", "messages": [{"role": "user", "content": "hello"}]}
    headers = {
        "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        "Content-Type": "application/json",
    }
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    while True:
        try:
            return opener.open(request.Request(url, json.dumps(body).encode(), headers)).read()
        except error.HTTPError:
            raise
        except OSError:
            time.sleep(0.1)

ask()
open("edited.txt", "w").write("changed")
print("counting", flush=True)
time.sleep(2)
ask()
print("counted")
"""


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("model") / "script.json"
    reply = {"text": "hello to you", "always": True, "usage": {"input": 100, "output": 50}}
    with model_process(script, [reply]) as url:
        yield url


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
    kubeconfig: Path,
    kubernetes: ApiClient,
    model_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("pods") / "data"
    data_dir.mkdir()
    (data_dir / "agentjobs.toml").write_text(AGENTS.replace("MODEL_URL", model_url))
    environment = {
        "AGENTJOBS_SANDBOX": "kubernetes",
        "AGENTJOBS_KUBERNETES_NAMESPACE": kubernetes.namespace,
        "AGENTJOBS_KUBERNETES_IMAGE": AGENT_IMAGE,
        "AGENTJOBS_KUBERNETES_USER_NAMESPACES": "off",
        "AGENTJOBS_SLOTS": "2",
        "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8",
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
    source = sample_repository(tmp_path_factory.mktemp("pods") / "source", {"slow.py": SLOW})
    service.connect(source, "acme/shop")
    service.admin("secrets", "set", "OPENAI_API_KEY", typed="sk-real-key")
    api = service.client(service.key())
    api.wait_ready("acme/shop")
    return api


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
    # The agent keeps the key for its model.
    assert job["usage"]["input_tokens"] == 200
    assert api.events(job_id) == [
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]
    assert pull_requests(service) == 1
    assert "the worker was restarted, and the agent continues" in log
    assert (log.count("slow starts on"), log.count("counted")) == (1, 1)
    # What the first worker had not acknowledged may come again.
    assert log.count("counting") in (1, 2)
    wait_until(lambda: pods_of(kubernetes, job_id) == [], "the pod to be deleted")
