"""The Helm chart agrees with itself and the program; `make test SUITE=kubernetes` renders it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from agentjobs_runtime.settings import Settings
from tests.support.documented_blocks import blocks_of
from tests.support.paths import PROJECT, VERSION

CHART = PROJECT / "kubernetes" / "chart" / "agentjobs"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
HELPERS = (CHART / "templates" / "_helpers.tpl").read_text()
SETTINGS = {field.name for field in msgspec.structs.fields(Settings)}
SECRETS = {
    *("database_url", "database_direct_url", "encryption_key"),
    *("oidc_client_secret", "metrics_token"),
}
# Values of the chart, the layout of its containers, and tables of agentjobs.toml.
NOT_IN_CONFIG = {
    *SECRETS,
    *("data_dir", "config_file", "repositories_dir", "auto_migrate", "port", "public_url"),
    *("plans", "agents", "prices", "slots", "drain_grace_seconds", "sandbox", "ca_file"),
    *("kubernetes_namespace", "kubernetes_image", "kubernetes_image_pull_policy"),
    *("kubernetes_user_namespaces", "kubernetes_pending_seconds", "kubernetes_cache_claim"),
    "kubernetes_image_pull_secrets",
    "kubernetes_worker_labels",
}
# Parts of Kubernetes objects, which the API server validates.
FREE_FORM = {
    *("requests", "limits", "affinity", "resourceQuota", "limitRange", "podSecurityContext"),
    "global",
}


def values_with(path: str, value: object) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(VALUES))
    *parents, last = path.split(".")
    place = values
    for name in parents:
        place = place[name]
    place[last] = value
    return values


def objects_in(schema: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if schema.get("type") == "object":
        yield name, schema
    for key, part in {**schema.get("properties", {}), **schema.get("$defs", {})}.items():
        yield from objects_in(part, key)


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_schema_accepts_the_default_values() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(VALUES)


def test_the_schema_describes_exactly_the_values() -> None:
    def check(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
        properties = schema.get("properties", {})
        if not properties:
            return
        assert set(values) == set(properties) - {"global"}, path
        for name, part in properties.items():
            if name != "global" and "$ref" not in part:
                assert part.get("description"), f"{path}.{name}"
                if isinstance(values[name], dict):
                    check(values[name], part, f"{path}.{name}")

    check(VALUES, SCHEMA, "")


def test_no_object_of_the_schema_accepts_unknown_names() -> None:
    lenient = {
        name
        for name, schema in objects_in(SCHEMA)
        if schema.get("additionalProperties") not in (False, {"type": "string"})
    }
    assert lenient == FREE_FORM


def test_config_accepts_every_setting_that_is_no_value_of_its_own() -> None:
    accepted = set(SCHEMA["$defs"]["settings"]["properties"])
    assert accepted == SETTINGS - NOT_IN_CONFIG


def test_the_chart_sets_only_settings_that_exist() -> None:
    shared = HELPERS.partition('"agentjobs.sharedSettings"')[2].partition("{{- end -}}")[0]
    names = set(re.findall(r"^(\w+):", shared, re.MULTILINE))
    assert len(names) > 12
    assert names <= SETTINGS


def test_every_included_template_is_defined() -> None:
    texts = [path.read_text() for path in (CHART / "templates").iterdir()]
    included = {name for text in texts for name in re.findall(r'include "([^"]+)"', text)}
    assert included <= set(re.findall(r'define "([^"]+)"', HELPERS))


def test_every_secret_is_read_from_an_existing_one() -> None:
    named = {name.lower() for name in re.findall(r'"([A-Z_]+)" \.root\.Values\.secrets\.', HELPERS)}
    assert named == SECRETS
    texts = [path.read_text() for path in (CHART / "templates").iterdir()]
    assert not any("kind: Secret\n" in text for text in texts)


def test_workers_may_do_little_and_only_in_the_namespace_of_agents() -> None:
    template = (CHART / "templates" / "agents.yaml").read_text()
    rules = yaml.safe_load(template.partition("\nrules:\n")[2].partition("\n---\n")[0])
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in rules] == [
        ([""], ["pods"], ["create", "get", "list", "watch", "delete"]),
        ([""], ["secrets"], ["create"]),
        (["networking.k8s.io"], ["networkpolicies"], ["get", "create", "update"]),
    ]
    roles = re.findall(r"kind: (?:Cluster)?Role\w*\nmetadata:\n.*\n  namespace: (.*)\n", template)
    assert roles == ["{{ $namespace }}"] * 2
    for path in (CHART / "templates").iterdir():
        assert "ClusterRole" not in path.read_text()


def test_only_workers_have_a_token_of_the_cluster() -> None:
    texts = {path.name: path.read_text() for path in (CHART / "templates").glob("*.yaml")}
    mounted = {
        name: re.findall(r"automountServiceAccountToken: (\w+)", text)
        for name, text in texts.items()
        if "containers:" in text
    }
    assert mounted == {
        "migrations.yaml": ["false"],
        "serve.yaml": ["false"],
        "worker.yaml": ["true"],
    }


def test_the_alert_rules_are_those_of_the_project() -> None:
    rules = CHART / "files" / "alerts.yml"
    assert rules.resolve() == PROJECT / "packaging" / "prometheus" / "alerts.yml"


def test_the_documented_values_are_accepted() -> None:
    def merge(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        nested = [name for name in values.keys() & more.keys() if isinstance(more[name], dict)]
        return {**values, **more, **{name: merge(values[name], more[name]) for name in nested}}

    blocks = [
        yaml.safe_load(block.text)
        for block in blocks_of(PROJECT / "docs" / "kubernetes.md")
        if block.language == "yaml"
    ]
    # The other one is for prometheus-adapter.
    values = [block for block in blocks if "rules" not in block]
    assert len(values) == len(blocks) - 1 > 3
    for each in values:
        VALIDATOR.validate(merge(VALUES, each))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("publicUrl", "agents.example.com"),
        ("publicUrl", "https://user@example.com"),
        ("serve.replicas", -1),
        ("serve.replicas", "2"),
        ("serve.replica", 2),
        ("worker.slots", 0),
        ("worker.dataVolume.size", "much"),
        ("worker.autoscaling.kind", "cron"),
        ("worker.autoscaling", {"enabled": True, "kind": "hpa", "minReplicas": 0}),
        ("config.queu_limit", 5),
        ("config.encryption_key", "secret"),
        ("config.queue_limit", {"value": 5}),
        ("secrets.databaseUrl.name", ""),
        ("secrets.databaseUrl.value", "postgresql://"),
        ("agents.cacheClaim", "/var/cache"),
        ("agents.namespace", "Agents"),
        ("agents.podSecurity", "none"),
        ("agents.userNamespaces", True),
        ("repositories.accessMode", "ReadOnlyMany"),
        ("httpRoute.enabled", True),
        ("image.pullPolicy", "Sometimes"),
        ("image.repository", "agent jobs"),
        ("image.tag", "1.0 latest"),
    ],
)
def test_wrong_values_are_refused(path: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(values_with(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("publicUrl", "https://example.com:8443/agents"),
        ("config.queue_limit", 500),
        ("config.trusted_proxies", ["10.0.0.0/8", "192.168.0.1"]),
        ("worker.autoscaling", {"enabled": True, "kind": "keda", "minReplicas": 0}),
        ("podSecurityContext.runAsUser", None),
    ],
)
def test_these_values_are_accepted(path: str, value: object) -> None:
    VALIDATOR.validate(values_with(path, value))
