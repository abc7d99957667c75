"""What the in-memory API server does as a real one: tests/kubernetes runs these there too."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kubernetes.client import ApiClient, pod_object
from tests.support.kubernetes.kubelet import NO_REGISTRY
from tests.support.kubernetes.memory_cluster import memory_cluster
from tests.support.kubernetes.objects import Object


@pytest.fixture(scope="module")
def client() -> Iterator[ApiClient]:
    with memory_cluster() as cluster:
        client = ApiClient(cluster.kubeconfig)
        yield client
        client.close()


@pytest.fixture(autouse=True)
def no_pods(client: ApiClient) -> Iterator[None]:
    """Each test begins without pods, and none of them is terminating."""
    yield
    for pod in client.get(client.pods)["items"]:
        client.delete(f"{client.pods}/{pod['metadata']['name']}", gracePeriodSeconds=0)


def read_state(pod: Object) -> Any:
    return pod["status"]["containerStatuses"][0]["state"]


def has_ended(status: Object) -> bool:
    return status.get("phase") in ("Succeeded", "Failed")


def is_running(status: Object) -> bool:
    return status.get("phase") == "Running" and bool(status.get("podIP"))


def wait_for_log(client: ApiClient, text: str) -> str:
    log = ""
    while text not in log:
        log = client.http.get(f"{client.pods}/pod/log").text
    return log


def refusal(client: ApiClient, path: str, item: Object) -> tuple[int, str]:
    response = client.http.post(path, json=item)
    status = response.json()
    assert (status["kind"], status["status"]) == ("Status", "Failure"), status
    assert status["code"] == response.status_code
    return response.status_code, status["reason"]


def test_a_version_is_told(client: ApiClient) -> None:
    assert client.get("/version")["major"] == "1"


def test_a_pod_runs_and_its_end_is_reported(client: ApiClient) -> None:
    created = client.create_pod("sh", "-c", "echo hello; exit 3")
    assert created["status"]["phase"] == "Pending"
    pod = client.wait_for_pod(has_ended)
    assert (pod["status"]["phase"], pod["metadata"]["uid"]) == (
        "Failed",
        created["metadata"]["uid"],
    )
    ended = read_state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert client.http.get(f"{client.pods}/pod/log").text == "hello\n"


def test_a_pod_that_succeeds_says_so(client: ApiClient) -> None:
    client.create_pod("true")
    pod = client.wait_for_pod(has_ended)
    assert pod["status"]["phase"] == "Succeeded"
    assert read_state(pod)["terminated"]["reason"] == "Completed"
    assert pod["spec"]["nodeName"]


def test_a_running_pod_has_an_address_and_a_process_of_its_own(client: ApiClient) -> None:
    aliases = [{"ip": "127.0.0.9", "hostnames": ["models.internal"]}]
    environment = [{"name": "GREETING", "value": "two\nlines"}]
    # A real cluster replaces $$ and $(NAME) before any shell sees them.
    script = 'cat /etc/hosts; echo "$GREETING"; echo "uid `id -u`"; exec sleep 1000'
    client.create_pod(*("sh", "-c", script), hostAliases=aliases, container={"env": environment})
    pod = client.wait_for_pod(is_running)
    assert "running" in read_state(pod)
    log = wait_for_log(client, "uid")
    assert log.endswith("two\nlines\nuid 23456\n")
    assert "models.internal" in log


def test_empty_directories_are_shared_by_the_containers_of_a_pod(client: ApiClient) -> None:
    volumes: list[Object] = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1048576"}},
    ]
    mounts = [{"name": "disk", "mountPath": "/agentjobs"}]
    read_only = [{**mounts[0], "readOnly": True}, {"name": "memory", "mountPath": "/tmp"}]
    first = pod_object("x", "sh", "-c", "echo from the first > /agentjobs/file")
    (initial,) = first["spec"]["containers"]
    script = """
    cat /agentjobs/file; echo x > /agentjobs/file || echo read-only
    head -c 2M /dev/zero > /tmp/large || echo full; echo x > /etc/x || echo read-only root
    """
    security = {**initial["securityContext"], "readOnlyRootFilesystem": True}
    client.create_pod(
        *("sh", "-c", script),
        initContainers=[{**initial, "name": "first", "volumeMounts": mounts}],
        container={"volumeMounts": read_only, "securityContext": security},
        volumes=volumes,
    )
    pod = client.wait_for_pod(has_ended)
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    log = client.http.get(f"{client.pods}/pod/log").text.splitlines()
    assert [line for line in log if ":" not in line] == [
        *("from the first", "read-only", "full", "read-only root")
    ]


def test_a_failed_init_container_fails_the_pod(client: ApiClient) -> None:
    (initial,) = pod_object("x", "sh", "-c", "exit 7")["spec"]["containers"]
    client.create_pod("true", initContainers=[{**initial, "name": "first"}])
    pod = client.wait_for_pod(has_ended)
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(
    ("image", "reason"),
    [(f"{NO_REGISTRY}missing:1", "ImagePullBackOff"), ("not an image", "InvalidImageName")],
)
def test_a_pod_waits_for_an_image_that_cannot_be_pulled(
    client: ApiClient, image: str, reason: str
) -> None:
    client.create_pod(container={"image": image})

    def waits(status: Object) -> bool:
        states = [container["state"] for container in status.get("containerStatuses", ())]
        return any(state.get("waiting", {}).get("reason") == reason for state in states)

    pod = client.wait_for_pod(waits)
    assert pod["status"]["phase"] == "Pending"
    assert image in read_state(pod)["waiting"]["message"]


def test_a_pod_for_which_no_node_exists_is_unschedulable(client: ApiClient) -> None:
    client.create_pod(nodeSelector={"example.com/gpu": "many"})
    pod = client.wait_for_pod(lambda status: bool(status.get("conditions")))
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"
    assert "nodes are available" in condition["message"]


def test_a_deletion_without_grace_is_immediate(client: ApiClient) -> None:
    client.create_pod()
    client.wait_for_pod(is_running)
    client.delete(f"{client.pods}/pod", gracePeriodSeconds=0)
    assert client.http.get(f"{client.pods}/pod").status_code == 404
    assert client.http.delete(f"{client.pods}/pod").status_code == 404


def test_a_deletion_with_grace_shows_when_the_pod_ends(client: ApiClient) -> None:
    client.create_pod()
    pod = client.wait_for_pod(is_running)
    client.delete(f"{client.pods}/pod", gracePeriodSeconds=1)
    version = pod["metadata"]["resourceVersion"]
    events = client.watch(client.pods, resourceVersion=version)
    kinds = []
    for event in events:
        kinds.append((event["type"], "deletionTimestamp" in event["object"]["metadata"]))
        if event["type"] == "DELETED":
            break
    assert kinds[0] == ("MODIFIED", True)
    assert kinds[-1] == ("DELETED", True)


def test_a_name_can_be_used_once(client: ApiClient) -> None:
    client.create_pod()
    assert refusal(client, client.pods, pod_object("pod")) == (409, "AlreadyExists")


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "x" * 254])
def test_an_invalid_name_is_refused(client: ApiClient, name: str) -> None:
    assert refusal(client, client.pods, pod_object(name)) == (422, "Invalid")


def test_a_missing_namespace_has_no_room_for_pods(client: ApiClient) -> None:
    path = "/api/v1/namespaces/missing/pods"
    assert refusal(client, path, pod_object("pod")) == (404, "NotFound")
    assert client.get(path)["items"] == []


def test_an_update_of_an_old_version_conflicts(client: ApiClient) -> None:
    path = f"/api/v1/namespaces/{client.namespace}/secrets"
    item = client.post(path, {"metadata": {"name": "pull"}, "data": {"key": "b2xk"}})
    changed = {**item, "data": {"key": "bmV3"}}
    assert client.http.put(f"{path}/pull", json=changed).status_code == 200
    response = client.http.put(f"{path}/pull", json=changed)
    assert (response.status_code, response.json()["reason"]) == (409, "Conflict")


def test_lists_are_selected_by_labels_and_fields(client: ApiClient) -> None:
    for name, tier in (("first", "a"), ("second", "b"), ("third", "a")):
        client.create_pod(name=name, labels={"tier": tier, "of": name})

    def names(**query: str) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in client.get(client.pods, **query)["items"])

    assert names(labelSelector="tier=a") == ["first", "third"]
    assert names(labelSelector="tier=a,of=third") == ["third"]
    assert names(fieldSelector="metadata.name=second") == ["second"]
    assert names(labelSelector="tier=a", fieldSelector="metadata.name=second") == []


def test_a_watch_shows_what_happened_since_a_version(client: ApiClient) -> None:
    version = client.get(client.pods)["metadata"]["resourceVersion"]
    client.create_pod(name="first", labels={"watched": "yes"})
    client.create_pod(name="other")
    client.delete(f"{client.pods}/first", gracePeriodSeconds=0)
    events = client.watch(client.pods, resourceVersion=version, labelSelector="watched=yes")
    seen = []
    for event in events:
        seen.append((event["type"], event["object"]["metadata"]["name"]))
        if event["type"] == "DELETED":
            break
    assert seen[0] == ("ADDED", "first")
    assert set(seen[1:-1]) <= {("MODIFIED", "first")}
    versions = int(event["object"]["metadata"]["resourceVersion"])
    assert versions > int(version)


def test_a_watch_ends_after_its_time(client: ApiClient) -> None:
    version = client.get(client.pods)["metadata"]["resourceVersion"]
    assert list(client.watch(client.pods, seconds=1, resourceVersion=version)) == []


def test_what_belongs_to_a_pod_is_deleted_after_it(client: ApiClient) -> None:
    pod = client.create_pod()
    path = f"/api/v1/namespaces/{client.namespace}/secrets"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": pod["metadata"]["uid"]}
    client.post(path, {"metadata": {"name": "owned", "ownerReferences": [owner]}})
    version = client.get(path)["metadata"]["resourceVersion"]
    client.delete(f"{client.pods}/pod", gracePeriodSeconds=0)
    event = next(client.watch(path, resourceVersion=version, fieldSelector="metadata.name=owned"))
    assert event["type"] == "DELETED"


def test_a_network_policy_can_be_created_and_changed(client: ApiClient) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{client.namespace}/networkpolicies"
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    policy = client.post(path, {"metadata": {"name": "agents"}, "spec": spec})
    port = {"ports": [{"port": 8463, "protocol": "TCP"}]}
    changed = {**policy, "spec": {**spec, "ingress": [port]}}
    assert client.http.put(f"{path}/agents", json=changed).json()["spec"]["ingress"] == [port]


def test_permissions_can_be_asked_for(client: ApiClient) -> None:
    attributes = {"namespace": client.namespace, "verb": "create", "resource": "pods"}
    review = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert client.post(path, review)["status"]["allowed"] is True


def test_an_unknown_token_is_refused(client: ApiClient) -> None:
    with client.connect({"token": "wrong"}) as http:
        assert http.get(client.pods).status_code == 401


def test_what_does_not_exist_is_not_found(client: ApiClient) -> None:
    for path in (f"{client.pods}/missing", "/api/v1/spaceships", "/apis/example.com/v1/pods"):
        assert client.http.get(path).status_code == 404
