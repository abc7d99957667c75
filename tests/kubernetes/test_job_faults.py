"""A job outlives whatever happens to the node of its pod and to the API server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.kubernetes import node_faults
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.kubernetes.gated_jobs import LOST, GatedJobs, gated_jobs
from tests.support.service import pull_requests, wait_until

ClusterFault = Callable[[Cluster], AbstractContextManager[None]]
# More than any test lets pass.
MANY = 10_000


@pytest.fixture(scope="module")
def jobs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatedJobs]:
    directory = tmp_path_factory.mktemp("faults")
    with gated_jobs(cluster, cluster.kubeconfig, directory) as jobs:
        yield jobs


@pytest.fixture(scope="module")
def proxied(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatedJobs, FaultProxy]]:
    """Its worker reaches the API server through the proxy."""
    directory = tmp_path_factory.mktemp("proxied")
    with (
        fault_proxy(cluster, directory) as (proxy, kubeconfig),
        gated_jobs(cluster, kubeconfig, directory) as jobs,
    ):
        yield jobs, proxy


@pytest.fixture(autouse=True)
def one_pull_request_and_no_pod(request: pytest.FixtureRequest) -> Iterator[None]:
    """What every test of this module expects at its end."""
    name = "proxied" if "proxied" in request.fixturenames else "jobs"
    value = request.getfixturevalue(name)
    jobs: GatedJobs = value[0] if name == "proxied" else value
    before = pull_requests(jobs.service)
    yield
    assert pull_requests(jobs.service) == before + 1
    jobs.wait_until_no_pod_is_left()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (node_faults.preempted, "a pod with a higher priority took its place"),
        (node_faults.memory_pressure, "The node was low on resource: memory"),
        (node_faults.stopped_kubelet, "its node became unavailable"),
    ],
    ids=["preempted", "memory pressure", "kubelet away"],
)
def test_a_job_whose_pod_the_cluster_ends_is_done_in_another_one(
    cluster: Cluster, jobs: GatedJobs, fault: ClusterFault, words: str
) -> None:
    job_id = jobs.begin()
    with fault(cluster):
        wait_until(lambda: LOST in jobs.api.log(job_id), "the job to lose its pod")
    log = jobs.finish(job_id, agents=2)
    assert words in log, log


def test_a_job_on_a_lost_node_is_done_when_there_is_one(cluster: Cluster, jobs: GatedJobs) -> None:
    job_id = jobs.begin()
    with node_faults.lost_node(cluster, jobs.namespace):
        wait_until(lambda: LOST in jobs.api.log(job_id), "the job to lose its pod")
    jobs.finish(job_id, agents=2)


@pytest.mark.parametrize(
    "fault",
    [node_faults.restarted_kubelet, node_faults.restarted_containerd],
    ids=["kubelet", "containerd"],
)
def test_an_agent_outlives_programs_of_its_node(
    cluster: Cluster, jobs: GatedJobs, fault: ClusterFault
) -> None:
    job_id = jobs.begin()
    with fault(cluster):
        assert LOST not in jobs.finish(job_id, agents=1)


@pytest.mark.parametrize(
    "fault",
    [node_faults.stopped_api_server, node_faults.stopped_etcd],
    ids=["API server", "etcd"],
)
def test_a_job_is_done_while_the_cluster_cannot_be_asked(
    cluster: Cluster, jobs: GatedJobs, fault: ClusterFault
) -> None:
    job_id = jobs.begin()
    with fault(cluster):
        jobs.wait_for_a_lease()
        assert LOST not in jobs.finish(job_id, agents=1)


@pytest.mark.parametrize(
    "fault",
    [node_faults.stopped_api_server, node_faults.stopped_etcd],
    ids=["API server", "etcd"],
)
def test_a_job_waits_for_the_cluster(
    cluster: Cluster, jobs: GatedJobs, fault: ClusterFault
) -> None:
    with fault(cluster):
        job_id = jobs.create()
        jobs.wait_for_words(job_id)
    jobs.finish(job_id, agents=1)


def test_a_worker_claims_nothing_while_the_api_server_is_away(
    cluster: Cluster, jobs: GatedJobs
) -> None:
    # It may not have noticed yet that an earlier outage is over.
    wait_until(lambda: jobs.worker()["status"] == "ready", "the worker to be ready")
    with node_faults.stopped_api_server(cluster):
        wait_until(lambda: jobs.worker()["status"] == "unready", "the worker to notice it")
        assert "the Kubernetes API server does not answer" in jobs.worker()["sandbox_problem"]
        job_id = jobs.create()
        jobs.wait_for_a_lease()
        job = jobs.api.job(job_id)
        assert (job["status"], job["queue_reason"]) == ("queued", "no_worker")
        assert "starts no job, because the Kubernetes" in jobs.service.try_admin("doctor").stdout
    jobs.finish(job_id, agents=1)
    assert jobs.worker()["status"] == "ready"


@pytest.mark.parametrize("status", [429, 500, 503, None], ids=str)
def test_a_job_waits_for_an_api_server_that_fails(
    proxied: tuple[GatedJobs, FaultProxy], status: int | None
) -> None:
    jobs, proxy = proxied
    fault = proxy.add(Fault(status, times=MANY))
    job_id = jobs.create()
    jobs.wait_for_words(job_id)
    fault.times = 0
    jobs.finish(job_id, agents=1)


@pytest.mark.parametrize("status", [429, 500, 503, None], ids=str)
def test_a_job_is_done_while_the_api_server_fails(
    proxied: tuple[GatedJobs, FaultProxy], status: int | None
) -> None:
    jobs, proxy = proxied
    job_id = jobs.begin()
    fault = proxy.add(Fault(status, times=MANY))
    proxy.cut_watches()
    jobs.finish(job_id, agents=1)
    fault.times = 0


def test_a_pod_that_is_deleted_while_the_watch_expires_is_noticed(
    cluster: Cluster, proxied: tuple[GatedJobs, FaultProxy]
) -> None:
    jobs, proxy = proxied
    job_id = jobs.begin()
    (pod,) = jobs.pods()
    fault = proxy.add(Fault(410, times=1, method="GET", path="/pods"))
    proxy.expire_watches()
    node_faults.delete_pod(cluster, pod, jobs.namespace)
    wait_until(lambda: LOST in jobs.api.log(job_id), "the job to lose its pod")
    jobs.finish(job_id, agents=2)
    assert fault.times == 0


def test_an_agent_outlives_an_expired_watch(proxied: tuple[GatedJobs, FaultProxy]) -> None:
    jobs, proxy = proxied
    job_id = jobs.begin()
    wait_until(proxy.expire_watches, "a watch to be there")
    assert LOST not in jobs.finish(job_id, agents=1)
