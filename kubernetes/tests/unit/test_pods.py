"""The pod of a command: its rights, its limits, its volumes and its names."""

import dataclasses
import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.labels import label_value
from agentjobs_kubernetes.pods import CachedLayer, PodRequest, pod_manifest, pod_name
from agentjobs_runtime.sandboxes.limits import GIB, Limits
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_worker.sandbox.protocol import Layer, RootImage, RunOwner, SandboxError, SandboxTask

OWNER = RunOwner(
    organization_id="org_1", step="agent", job_id="job_1", agent_id="my agent: v2", fence=7
)
IMAGE = RootImage(reference="registry.test/app@sha256:abc", registry_auth='{"auths": {}}')


def settings(**changes: Any) -> ClusterSettings:
    return ClusterSettings(worker="w1", image="localhost/agent:1", **changes)


TASK = SandboxTask(
    argv=("true",),
    environment={},
    workspace=Path("/w"),
    run_dir=Path("/r"),
    timeout_seconds=60,
    slot=0,
)
HOME_LAYER = Layer(inside=PurePosixPath("/home/agent"), lower=Path("/l"), upper=Path("/u"))


def request(
    cached: tuple[CachedLayer, ...] = (), *, writes_cache: bool = False, **changes: Any
) -> PodRequest:
    task = dataclasses.replace(TASK, **changes)
    return PodRequest(
        name="p", supervisor="{}", task=task, cached=cached, writes_cache=writes_cache
    )


def spec_of(pod: PodRequest, has_user_namespace: bool = False, **changes: Any) -> dict[str, Any]:
    manifest = pod_manifest(pod, settings(**changes), has_user_namespace=has_user_namespace)
    spec: dict[str, Any] = manifest.to_dict()["spec"]
    return spec


def test_no_container_has_more_rights_than_the_restricted_standard_allows() -> None:
    spec = spec_of(request(image=IMAGE))
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        }
    assert spec["restartPolicy"] == "Never"


def test_the_cluster_ends_a_pod_only_after_its_worker_should_have() -> None:
    spec = spec_of(request(timeout_seconds=60.5), pending_seconds=600)
    assert spec["activeDeadlineSeconds"] == 961


def test_autoscalers_do_not_end_a_run_to_empty_its_node() -> None:
    pod = pod_manifest(request(), settings(), has_user_namespace=False).to_dict()
    assert pod["metadata"]["annotations"] == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }


def test_nothing_of_the_cluster_has_a_name() -> None:
    spec = spec_of(request(hosts={"db": "127.0.0.2", "cache": "127.0.0.2", "api": "127.0.0.3"}))
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert spec["hostAliases"] == [
        {"ip": "127.0.0.2", "hostnames": ["db", "cache"]},
        {"ip": "127.0.0.3", "hostnames": ["api"]},
    ]


def test_a_user_namespace_makes_a_fixed_user_enough() -> None:
    spec = spec_of(request(), has_user_namespace=True)
    assert spec["hostUsers"] is False
    assert spec["securityContext"]["runAsUser"] == 10_001


def test_without_a_user_namespace_each_pod_has_a_user_of_its_own() -> None:
    specs = [spec_of(request(), uid_base=500_000) for _ in range(20)]
    users = {spec["securityContext"]["runAsUser"] for spec in specs}
    assert len(users) > 1
    assert all(500_000 <= user < 600_000 for user in users)
    assert all("hostUsers" not in spec for spec in specs)


def test_requests_equal_limits_except_for_disk_space() -> None:
    limits = Limits(memory_bytes=GIB, cpus=1.5, workspace_bytes=10 * GIB)
    resources = spec_of(request(limits=limits))["containers"][0]["resources"]
    both = {"memory": str(GIB + 64 * 1024**2), "cpu": "1500m"}
    assert resources["limits"] == {**both, "ephemeral-storage": str(11 * GIB)}
    assert resources["requests"] == {**both, "ephemeral-storage": str(2 * GIB)}
    small = spec_of(request(limits=Limits(workspace_bytes=GIB)))["containers"][0]["resources"]
    assert small["requests"]["ephemeral-storage"] == str(GIB)


def test_without_limits_a_pod_still_requests_something() -> None:
    limits = Limits(memory_bytes=0, cpus=0, workspace_bytes=0, scratch_bytes=0)
    spec = spec_of(request(limits=limits))
    assert spec["containers"][0]["resources"] == {
        "requests": {"memory": "268435456", "cpu": "100m"}
    }
    assert all("sizeLimit" not in volume["emptyDir"] for volume in spec["volumes"])


def test_an_image_of_the_task_gets_the_supervisor_from_ours() -> None:
    spec = spec_of(request(image=IMAGE))
    (agent,), (copying,) = spec["containers"], spec["initContainers"]
    assert (agent["image"], agent["imagePullPolicy"]) == (IMAGE.reference, "Always")
    assert copying["image"] == "localhost/agent:1"
    assert copying["command"][1:] == ["copy", *agent["command"]]
    directory, program = agent["command"][0].rsplit("/", 1)
    assert program == "supervisor"
    mount = next(each for each in agent["volumeMounts"] if each["mountPath"] == directory)
    assert mount["readOnly"] is True
    assert spec["imagePullSecrets"] == [{"name": "p"}]


def test_an_image_cannot_know_where_its_supervisor_will_be() -> None:
    names = [pod_name("agent") for _ in range(2)]
    specs = [spec_of(dataclasses.replace(request(image=IMAGE), name=name)) for name in names]
    commands = {spec["containers"][0]["command"][0] for spec in specs}
    assert len(commands) == 2


def test_the_default_image_needs_neither_a_copy_nor_a_secret() -> None:
    spec = spec_of(request())
    assert spec["containers"][0]["command"] == ["/usr/local/bin/agentjobs-supervisor"]
    assert "initContainers" not in spec
    assert "imagePullSecrets" not in spec


def test_secrets_of_our_image_come_before_that_of_the_task() -> None:
    spec = spec_of(request(), image_pull_secrets=("registry",))
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    spec = spec_of(request(image=IMAGE), image_pull_secrets=("registry",))
    assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "p"}]


def test_a_layer_for_the_home_directory_is_on_disk() -> None:
    pod = request(layers=(HOME_LAYER,), owner=OWNER)
    volumes = {each["name"]: each for each in spec_of(pod)["volumes"]}
    assert "medium" not in volumes["home"]["emptyDir"]
    assert volumes["tmp"]["emptyDir"]["medium"] == "Memory"


def test_a_pod_goes_where_its_agent_says() -> None:
    placement = Placement(
        runtime_class="gvisor",
        node_selector={"pool": "agents"},
        tolerations=({"key": "agents", "operator": "Exists", "tolerationSeconds": 5},),
    )
    spec = spec_of(request(placement=placement))
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "agents"}
    assert spec["tolerations"] == [{"key": "agents", "operator": "Exists", "tolerationSeconds": 5}]


def test_a_toleration_that_is_not_one_is_an_error_in_words() -> None:
    placement = Placement(tolerations=({"tolerationSeconds": "soon"},))
    with pytest.raises(SandboxError, match="toleration of the agent is not valid"):
        spec_of(request(placement=placement))


def mounts_of(container: dict[str, Any]) -> dict[str, bool]:
    """By path, whether they are read-only."""
    return {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}


@pytest.mark.parametrize("image", [None, IMAGE])
def test_no_container_that_runs_an_agent_sees_the_cache(image: RootImage | None) -> None:
    layer = CachedLayer("/home/agent", "0" * 64, 5)
    pod = request((layer,), image=image, layers=(HOME_LAYER,), owner=OWNER)
    spec = spec_of(pod, cache_claim="agents-cache")
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": "agents-cache"}}
    assert spec["volumes"][-1] == volume
    (agent,), (init,) = spec["containers"], spec["initContainers"]
    assert "/agentjobs-cache" not in mounts_of(agent)
    # It says what was unpacked.
    assert mounts_of(agent)["/p"] is True
    assert agent["command"] == ["/p/supervisor"]
    assert mounts_of(init)["/agentjobs-cache"] is True
    assert mounts_of(init)["/home/agent"] is False
    assert init["image"] == "localhost/agent:1"
    (variable,) = init["env"]
    assert json.loads(variable["value"]) == [
        {"path": "/home/agent", "sha256": "0" * 64, "bytes": 5}
    ]
    # The cluster counts the larger one of both.
    assert init["resources"] == agent["resources"]


def test_a_pod_without_cached_layers_does_not_wait_for_the_volume() -> None:
    spec = spec_of(request(image=IMAGE), cache_claim="agents-cache")
    assert not any("persistentVolumeClaim" in volume for volume in spec["volumes"])
    assert "initContainers" not in spec_of(request(), cache_claim="agents-cache")


def test_only_a_pod_that_fills_the_cache_can_write_it() -> None:
    spec = spec_of(request(writes_cache=True), cache_claim="agents-cache")
    assert mounts_of(spec["containers"][0])["/agentjobs-cache"] is False
    assert spec["securityContext"]["fsGroup"] == 10_001
    assert "fsGroup" not in spec_of(request())["securityContext"]


def test_labels_are_valid_and_annotations_are_whole() -> None:
    metadata = pod_manifest(request(owner=OWNER), settings(), has_user_namespace=False).metadata
    assert metadata is not None
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    assert labels["agentjobs.dev/job"] == "job_1"
    assert labels["agentjobs.dev/agent"].startswith("my-agent-v2-")
    assert annotations["agentjobs.dev/agent"] == "my agent: v2"
    assert annotations["agentjobs.dev/fence"] == "7"


@given(st.text())
def test_any_text_has_a_valid_label_value(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert bool(value) == bool(text)
    assert not value or (value[0] + value[-1]).isalnum()
    assert set(value) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def test_long_texts_with_the_same_start_have_different_label_values() -> None:
    assert label_value("a" * 64) != label_value("a" * 65)


@given(st.text())
def test_any_step_has_a_valid_pod_name(step: str) -> None:
    name = pod_name(step)
    assert len(name) <= 63
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert name != pod_name(step)
