"""The chart on a real cluster: installed, upgraded under load, used for a job, and removed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.helm import RELEASE
from tests.kubernetes.namespaces import CommandFailed, wait_for
from tests.kubernetes.release import AvailabilityCheck, Release, load_images, prepared_release
from tests.support.documented_blocks import blocks_of
from tests.support.paths import PROJECT

# The images are built before the first test.
pytestmark = pytest.mark.timeout(3600)

ACCOUNT = "system:serviceaccount:release:agentjobs-worker"
# What workers may do, besides asking what they may do.
PERMISSIONS = {
    "pods": {"create", "get", "list", "watch", "delete"},
    "secrets": {"create"},
    "networkpolicies.networking.k8s.io": {"get", "create", "update"},
}


# Says how often it was started, and takes longer than the restart of a worker.
SLOW_AGENT = """
[[agents]]
id = "slow"
name = "Slow"
command = ["sh", "-c", "echo begins; for i in $(seq 45); do echo $i; sleep 1; done; date > now"]
"""


@pytest.fixture(scope="module")
def images(cluster: Cluster) -> None:
    load_images(cluster)


@pytest.fixture(scope="module")
def release(
    cluster: Cluster, images: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    with prepared_release(cluster, "release", tmp_path_factory.mktemp("release")) as prepared:
        prepared.install(configFile=SLOW_AGENT)
        yield prepared


def test_the_service_runs_on_the_schema_that_the_hook_created(release: Release) -> None:
    assert len(release.pods("serve")) == 2
    assert len(release.pods("worker")) == 1
    jobs = json.loads(release.kubectl("get", "jobs", "-o", "json"))
    assert jobs["items"] == []
    with release.client() as client:
        agents = client.get("/v1/agents").raise_for_status().json()["agents"]
    assert "lint-fixer" in {agent["id"] for agent in agents}


def test_workers_have_exactly_the_permissions_that_they_need(release: Release) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": release.agents_namespace},
    }
    options = ("create", "--validate=false", "-o", "json", "-f", "-", "--as", ACCOUNT)
    # The groups that the API server gives to service accounts.
    groups = [
        f"--as-group=system:{name}"
        for name in ("serviceaccounts", "serviceaccounts:release", "authenticated")
    ]

    def permissions(namespace: str) -> dict[str, set[str]]:
        review["spec"] = {"namespace": namespace}
        answer = release.cluster.kubectl(*options, *groups, text=json.dumps(review))
        granted: dict[str, set[str]] = {}
        for rule in json.loads(answer)["status"]["resourceRules"]:
            for resource in rule["resources"]:
                for group in rule["apiGroups"]:
                    name = f"{resource}.{group}" if group else resource
                    if group not in ("authorization.k8s.io", "authentication.k8s.io"):
                        granted.setdefault(name, set()).update(rule["verbs"])
        return granted

    assert permissions(release.agents_namespace) == PERMISSIONS
    for namespace in (release.namespace, "default", "kube-system"):
        assert permissions(namespace) == {}


def test_serve_has_no_access_to_the_cluster(release: Release) -> None:
    with pytest.raises(CommandFailed):
        release.run("serve", "ls", "/var/run/secrets/kubernetes.io")
    assert "token" in release.run("worker", "ls", "/var/run/secrets/kubernetes.io/serviceaccount")


def create_job(client: httpx.Client, repo: str, agent: str) -> str:
    answer = client.post("/v1/jobs", json={"repo": repo, "agent": agent})
    return str(answer.raise_for_status().json()["job_id"])


def wait_for_job(client: httpx.Client, job: str) -> dict[str, Any]:
    """Its final state."""
    result: dict[str, Any] = {}

    def has_ended() -> bool:
        options: dict[str, Any] = {"wait_seconds": 60, "wait_for": "final"}
        answer = client.get(f"/v1/jobs/{job}", params=options)
        result.update(answer.raise_for_status().json())
        return result["status"] not in ("queued", "running")

    wait_for(has_ended, f"{job} did not end", seconds=300)
    return result


def test_a_job_becomes_a_pull_request(release: Release) -> None:
    release.connect_repository("acme/shop")
    with release.client() as client:
        result = wait_for_job(client, create_job(client, "acme/shop", "lint-fixer"))
    assert result["status"] == "completed", result
    assert "/pulls/1" in result["pr_url"]


def test_a_worker_whose_container_was_killed_continues_its_agent(release: Release) -> None:
    release.connect_repository("acme/slow")
    with release.client() as client:
        job = create_job(client, "acme/slow", "slow")

        def log() -> list[str]:
            """The last word of each line."""
            text = client.get(f"/v1/jobs/{job}/logs").raise_for_status().text
            return [line.split()[-1] for line in text.splitlines() if line.split()]

        wait_for(lambda: "3" in log(), "the agent did not start")
        release.kill_container("worker")
        result = wait_for_job(client, job)
        words = log()
    assert result["status"] == "completed", result
    assert words.count("begins") == words.count("45") == 1
    assert release.pods("worker")[0]["status"]["containerStatuses"][0]["restartCount"] == 1


def documented(text: str) -> str:
    """The commands of the block with this text."""
    page = PROJECT / "docs" / "kubernetes.md"
    blocks = [each.text for each in blocks_of(page) if each.language == "sh" and text in each.text]
    assert len(blocks) == 1, f"{len(blocks)} blocks have {text}"
    return blocks[0]


def test_the_documented_commands_work(release: Release, tmp_path: Path) -> None:
    link_and_key = release.run_documented(documented("users add"), tmp_path)
    assert f"{release.url}/sign-in?token=" in link_and_key
    release.run_documented(documented("automountServiceAccountToken"), tmp_path)
    release.run_documented(documented("get pods -L"), tmp_path)
    backup, _, upgrade = documented("agentjobs backup").partition("helm upgrade")
    assert upgrade
    release.run_documented(backup, tmp_path)
    assert next(tmp_path.glob("backup-*")).is_dir()


def test_an_upgrade_under_load_fails_no_request(release: Release) -> None:
    before = {pod["metadata"]["name"] for pod in release.pods("serve")}
    plan = '[[plans]]\nname = "free"\nconcurrent_jobs = 20\n'
    with AvailabilityCheck(release.url) as check:
        release.install(configFile=plan + SLOW_AGENT)
    after = {pod["metadata"]["name"] for pod in release.pods("serve")}
    assert before & after == set()
    assert check.failures == []
    assert check.successes > 10
    assert plan in release.run("serve", "cat", "/etc/agentjobs/agentjobs.toml")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"config": {"lease_renew_seconds": 1000}},
            "lease_renew_seconds: must be at most half of lease_seconds",
        ),
        ({"config": {"trusted_proxies": ["ingress"]}}, "AGENTJOBS_TRUSTED_PROXIES takes addresses"),
        (
            {"configFile": '[[agents]]\nid = "mine"\nname = "Mine"\ncommand = []\n'},
            "/etc/agentjobs/agentjobs.toml, line 4: agents[0].command: must name a program",
        ),
    ],
)
def test_invalid_values_stop_an_upgrade_before_it_replaces_a_pod(
    release: Release, values: dict[str, Any], words: str
) -> None:
    before = {pod["metadata"]["name"] for pod in release.pods("serve")}
    with pytest.raises(CommandFailed):
        release.helm.install({**release.values, **values}, timeout="45s")
    assert words in release.kubectl("logs", f"job/{RELEASE}-migrations")
    assert {pod["metadata"]["name"] for pod in release.pods("serve")} == before


def test_an_uninstalled_release_leaves_nothing(
    cluster: Cluster, images: None, tmp_path: Path
) -> None:
    def remaining(namespace: str) -> list[str]:
        kinds = "all,configmaps,secrets,roles,rolebindings,serviceaccounts,networkpolicies,pdb,pvc"
        names = cluster.kubectl("--namespace", namespace, "get", kinds, "-o", "name").split()
        given = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
        return sorted(set(names) - given)

    with prepared_release(cluster, "removed", tmp_path) as release:
        before = remaining(release.namespace)
        release.install(serve={**release.values["serve"], "replicas": 1})
        assert remaining(release.namespace) != before
        release.run_documented(documented("helm uninstall"), tmp_path)
        wait_for(lambda: remaining(release.namespace) == before, "objects of the release remain")
        namespaces = cluster.kubectl("get", "namespaces", "-o", "name")
        assert f"namespace/{release.agents_namespace}\n" not in namespaces
