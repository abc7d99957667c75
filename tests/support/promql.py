"""The metrics and labels that queries of the packaged files name, and those that a service has."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.paths import PROJECT

ALERTS = PROJECT / "packaging/prometheus/alerts.yml"
SCRAPING = PROJECT / "packaging/prometheus/prometheus.yml"
DOCUMENT = PROJECT / "docs/monitoring.md"
DASHBOARD = PROJECT / "packaging/grafana/agentjobs.json"

# Prometheus adds the first three to what it scrapes; prometheus.yml adds the last.
_TARGET_LABELS = frozenset({"job", "instance", "role"})
_WORDS = frozenset(
    {"histogram_quantile", "increase", "max", "min", "rate", "sum", "topk", "unless"}
)
_STRING = re.compile(r'"[^"]*"')
_SELECTOR = re.compile(r"([a-zA-Z_]\w*)?\s*\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^]]*\]")
_NAME = re.compile(r"\b[a-zA-Z_]\w*")

Exposition = Mapping[str, frozenset[str]]


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The values in the output of `/metrics`, by name and the values of the labels."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def exposition(text: str) -> Exposition:
    """The label names of each sample in the output of `/metrics`."""
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return {name: frozenset(names) for name, names in labels.items()}


def own_metrics(existing: Exposition) -> Exposition:
    """As documented: the service's own metrics, with one entry for a histogram."""
    parts = {
        f"{name.removesuffix('_bucket')}_{part}"
        for name in existing
        if name.endswith("_bucket")
        for part in ("count", "sum")
    }
    return {
        name.removesuffix("_bucket"): labels - {"le"}
        for name, labels in existing.items()
        if name.startswith("agentjobs_") and not name.endswith("_created") and name not in parts
    }


def documented_metrics() -> Exposition:
    """From the tables of docs/monitoring.md: names in the first column, labels in the second."""
    rows = [line.split("|")[1:3] for line in DOCUMENT.read_text().splitlines() if line[:1] == "|"]
    return {
        name: frozenset(re.findall(r"`(\w+)`", labels))
        for names, labels in rows
        for name in re.findall(r"`(agentjobs_\w+)`", names)
    }


def unknown_names(query: str, existing: Exposition) -> list[str]:
    """What a query names that no service exports: metrics, functions and labels."""
    query = _RANGE.sub("", _STRING.sub('""', query))
    unknown: list[str] = []
    for name, matchers in _SELECTOR.findall(query):
        labels = existing.get(name, frozenset()) | _TARGET_LABELS
        unknown += [f"{name}: {label}" for label in _NAME.findall(matchers) if label not in labels]
    query = _SELECTOR.sub(r"\1", query)
    grouping = [label for labels in _GROUPING.findall(query) for label in _NAME.findall(labels)]
    query = _GROUPING.sub("", query)
    names = [name for name in _NAME.findall(query) if name not in _WORDS]
    unknown += [name for name in names if name not in existing and name != "up"]
    labels = _TARGET_LABELS.union(*(existing.get(name, frozenset()) for name in names))
    return unknown + [label for label in grouping if label not in labels]


def alert_rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def panels() -> Iterator[dict[str, Any]]:
    dashboard = json.loads(DASHBOARD.read_text())
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def dashboard_queries() -> list[str]:
    """With values for Grafana's variables."""
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [
        expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
        for expression in expressions
    ]
