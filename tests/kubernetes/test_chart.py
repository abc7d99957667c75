"""What the chart renders: the API server accepts every object, and the objects fit together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.helm import RELEASE, Helm
from tests.kubernetes.namespaces import CommandFailed
from tests.support.paths import PROJECT

NAMESPACE = "chart"
AGENTS = f"{NAMESPACE}-agents"
Object = dict[str, Any]
EVERYTHING: Object = {
    "imagePullSecrets": [{"name": "registry"}],
    "config": {"cache_max_bytes": 21474836480, "trusted_proxies": ["10.0.0.0/8", "192.0.2.1"]},
    "configFile": '[[plans]]\nname = "team"\nconcurrent_jobs = 20\n',
    "secrets": {
        "databaseDirectUrl": {"name": "agentjobs"},
        "oidcClientSecret": {"name": "oidc"},
        "metricsToken": {"name": "metrics"},
    },
    "caCertificates": {"configMap": "company-ca"},
    "serve": {
        "config": {"log_level": "debug"},
        "podAnnotations": {"example.com/team": "platform"},
        "podLabels": {"team": "platform"},
        "nodeSelector": {"pool": "services"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    },
    "worker": {
        "dataVolume": {"storageClass": "fast"},
        "autoscaling": {"enabled": True},
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    },
    "agents": {
        "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
        "resourceQuota": {"hard": {"pods": "50", "requests.memory": "200Gi"}},
        "limitRange": {"limits": [{"type": "Pod", "max": {"memory": "32Gi"}}]},
        "cacheClaim": "cache",
    },
    "service": {"annotations": {"example.com/internal": "true"}},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "certificate"},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]},
    "networkPolicy": {
        "enabled": True,
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "metricsFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True},
    },
    "serviceAccount": {"annotations": {"example.com/role": "worker"}},
}
CASES: dict[str, Object] = {
    "defaults": {},
    "everything": EVERYTHING,
    "keda": {"worker": {"autoscaling": {"enabled": True, "kind": "keda", "minReplicas": 0}}},
    "one node": {"serve": {"replicas": 1}, "repositories": {"accessMode": "ReadWriteOnce"}},
    "existing objects": {
        "agents": {"createNamespace": False, "namespace": AGENTS},
        "repositories": {"existingClaim": "repositories"},
        "migrations": {"enabled": False},
        "fullnameOverride": "jobs",
    },
    "users chosen by the cluster": {
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    },
}
# Their schemas are not part of Kubernetes.
CUSTOM = {"ServiceMonitor", "PrometheusRule", "HTTPRoute", "ScaledObject"}


@pytest.fixture(scope="module", autouse=True)
def namespaces(cluster: Cluster) -> Iterator[None]:
    """Pods that are not restricted are refused in both."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    for name in (NAMESPACE, AGENTS):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("label", "namespace", name, label)
    yield
    cluster.kubectl("delete", "namespace", NAMESPACE, AGENTS)


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Helm:
    return Helm(cluster, NAMESPACE, tmp_path)


def find(objects: list[Object], kind: str, name: str = RELEASE) -> Object:
    matching = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    assert len(matching) == 1, f"{len(matching)} objects {kind} {name}"
    return matching[0]


def pod_templates(objects: list[Object]) -> dict[str, Object]:
    return {
        each["metadata"]["name"].rpartition("-")[2]: each["spec"]["template"]
        for each in objects
        if each["kind"] in ("Deployment", "Job")
    }


def variables(template: Object) -> dict[str, str]:
    environment = template["spec"]["containers"][0]["env"]
    return {each["name"]: each.get("value", "") for each in environment}


def dry_run(cluster: Cluster, objects: list[Object]) -> None:
    document = {"apiVersion": "v1", "kind": "List", "items": objects}
    options = ("--server-side", "--dry-run=server", "--validate=strict")
    cluster.kubectl("apply", *options, "-f", "-", text=json.dumps(document))


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_every_object(cluster: Cluster, helm: Helm, case: str) -> None:
    helm.lint(CASES[case])
    objects = helm.render(CASES[case])
    dry_run(cluster, [each for each in objects if each["kind"] not in CUSTOM])
    assert all("status" not in each for each in objects)


def test_the_api_server_refuses_a_field_that_does_not_exist(cluster: Cluster, helm: Helm) -> None:
    service = find(helm.render({}), "Service")
    service["spec"]["portz"] = []
    with pytest.raises(CommandFailed, match="portz"):
        dry_run(cluster, [service])


@pytest.mark.parametrize("case", CASES)
def test_every_pod_is_restricted(cluster: Cluster, helm: Helm, case: str) -> None:
    templates = pod_templates(helm.render(CASES[case]))
    for name, template in templates.items():
        # Priority classes and claims are the cluster's.
        spec = {
            key: value for key, value in template["spec"].items() if key != "serviceAccountName"
        }
        metadata = {"name": name, "namespace": NAMESPACE}
        dry_run(cluster, [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])
    assert {"serve", "worker"} <= set(templates)


@pytest.mark.parametrize("case", CASES)
def test_selectors_select_the_pods_that_they_mean(helm: Helm, case: str) -> None:
    objects = helm.render(CASES[case])
    labels = {
        name: template["metadata"]["labels"] for name, template in pod_templates(objects).items()
    }

    def selected(selector: Object) -> set[str]:
        return {name for name, own in labels.items() if own.items() >= selector.items()}

    for each in objects:
        name = each["metadata"]["name"].rpartition("-")[2]
        if each["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert selected(each["spec"]["selector"]["matchLabels"]) == {name}
        if each["kind"] == "Service":
            expected = {"serve", "worker"} if name == "metrics" else {"serve"}
            assert selected(each["spec"]["selector"]) == expected
        if each["kind"] == "NetworkPolicy":
            expected = {"serve", "worker"} if name == "metrics" else {"serve"}
            assert selected(each["spec"]["podSelector"]["matchLabels"]) == expected


def test_settings_become_variables(helm: Helm) -> None:
    templates = pod_templates(helm.render(EVERYTHING))
    worker = variables(templates["worker"])
    assert worker["AGENTJOBS_CACHE_MAX_BYTES"] == "21474836480"
    assert worker["AGENTJOBS_TRUSTED_PROXIES"] == "10.0.0.0/8,192.0.2.1"
    assert worker["AGENTJOBS_AUTO_MIGRATE"] == "false"
    assert worker["AGENTJOBS_SLOTS"] == "10"
    assert worker["AGENTJOBS_KUBERNETES_NAMESPACE"] == AGENTS
    assert "AGENTJOBS_LOG_LEVEL" not in worker
    serve = variables(templates["serve"])
    assert serve["AGENTJOBS_LOG_LEVEL"] == "debug"
    assert "AGENTJOBS_SLOTS" not in serve


def test_the_hook_uses_no_object_of_the_release(helm: Helm) -> None:
    template = pod_templates(helm.render(EVERYTHING))["migrations"]
    assert template["spec"].get("serviceAccountName") is None
    volumes = {volume.pop("name"): volume for volume in template["spec"]["volumes"]}
    (item,) = volumes.pop("config")["downwardAPI"]["items"]
    assert all("emptyDir" in volume for volume in volumes.values())
    annotation = item["fieldRef"]["fieldPath"].split("'")[1]
    assert template["metadata"]["annotations"][annotation] == EVERYTHING["configFile"]


def test_only_a_changed_file_replaces_pods(helm: Helm) -> None:
    def checksums(text: str) -> set[str]:
        templates = pod_templates(helm.render({**EVERYTHING, "configFile": text}))
        return {
            templates[name]["metadata"]["annotations"]["checksum/config"]
            for name in ("serve", "worker")
        }

    assert checksums("a = 1\n") == checksums("a = 1\n") != checksums("a = 2\n")


def test_a_worker_has_more_time_than_its_jobs(helm: Helm) -> None:
    worker = pod_templates(helm.render({"worker": {"drainGraceSeconds": 3600}}))["worker"]
    assert variables(worker)["AGENTJOBS_DRAIN_GRACE_SECONDS"] == "3600"
    assert worker["spec"]["terminationGracePeriodSeconds"] == 3630


def test_objects_of_operators_name_the_objects_of_the_chart(helm: Helm) -> None:
    objects = helm.render(EVERYTHING)
    service = find(objects, "Service")
    backend = find(objects, "HTTPRoute")["spec"]["rules"][0]["backendRefs"][0]
    assert backend == {"name": RELEASE, "port": service["spec"]["ports"][0]["port"]}
    monitor = find(objects, "ServiceMonitor")["spec"]
    metrics = find(objects, "Service", f"{RELEASE}-metrics")
    labels = metrics["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    # The alert rules expect this job.
    assert labels[monitor["jobLabel"]] == "agentjobs"
    assert monitor["endpoints"][0]["port"] == metrics["spec"]["ports"][0]["name"]
    rules = yaml.safe_load((PROJECT / "packaging" / "prometheus" / "alerts.yml").read_text())
    assert find(objects, "PrometheusRule")["spec"] == rules
    scaled = find(helm.render(CASES["keda"]), "ScaledObject", f"{RELEASE}-worker")["spec"]
    assert scaled["scaleTargetRef"]["name"] == f"{RELEASE}-worker"
    trigger = scaled["triggers"][0]["metadata"]
    assert trigger["connectionFromEnv"] in variables(pod_templates(objects)["worker"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"publicUrl": ""}, "publicUrl is required"),
        ({"publicUrl": "agents.example.com"}, "/publicUrl"),
        ({"serve": {"replica": 3}}, "additional properties 'replica' not allowed"),
        ({"config": {"queu_limit": 5}}, "additional properties 'queu_limit' not allowed"),
        ({"config": {"encryption_key": "x"}}, "'encryption_key' not allowed"),
        ({"repositories": {"accessMode": "ReadWriteOnce"}}, "set serve.replicas to 1"),
        ({"agents": {"namespace": NAMESPACE}}, "must not be the namespace of the release"),
        (
            {"ingress": {"enabled": True}, "publicUrl": "https://example.com/agents"},
            "use a host name of its own",
        ),
        ({"httpRoute": {"enabled": True}}, "/httpRoute/parentRefs"),
        (
            {"worker": {"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 2}}},
            "minReplicas (5) is greater than maxReplicas (2)",
        ),
    ],
)
def test_wrong_values_are_refused_with_words(helm: Helm, values: Object, words: str) -> None:
    with pytest.raises(CommandFailed) as refusal:
        helm.render(values)
    assert words in str(refusal.value)
