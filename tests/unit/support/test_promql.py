"""Names in queries are found wherever they stand."""

import pytest

from tests.support.promql import alert_rules, dashboard_queries, panels, unknown_names

EXISTING = {"jobs": frozenset({"state"}), "wait_bucket": frozenset({"le"})}


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ('max by (state) (jobs{state="state", job="a"}) > 1', []),
        ("histogram_quantile(0.99, sum by (le) (rate(wait_bucket[5m])))", []),
        ("up == 0 unless on (instance) jobs", []),
        ("max(job)", ["job"]),
        ("jobs / wait_buckets", ["wait_buckets"]),
        ('jobs{stat="ready"}', ["jobs: stat"]),
        ("sum by (le) (jobs)", ["le"]),
        ("jobs < on (state) group_left (plan) (2 * jobs)", ["plan"]),
        ("summ(jobs)", ["summ"]),
        ('wait_bucket{state="ready"}', ["wait_bucket: state"]),
    ],
)
def test_unknown_names_of_a_query_are_found(query: str, unknown: list[str]) -> None:
    assert unknown_names(query, EXISTING) == unknown


def test_every_alert_says_what_happened_and_what_to_do() -> None:
    rules = alert_rules()
    names = [rule["alert"].removeprefix("Agentjobs") for rule in rules]
    assert len(set(names)) == len(names)
    assert {
        "NoWorker",
        "QueueStuck",
        "DeliveriesFailing",
        "DiskLow",
        "LeasesLost",
        "LoopDelayed",
    } < set(names)
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert len(rule["annotations"]["summary"]) > 20
        assert len(rule["annotations"]["description"]) > 100


def test_panels_have_queries_and_do_not_overlap() -> None:
    occupied: set[tuple[int, int]] = set()
    ids: set[int] = set()
    for panel in panels():
        at = panel["gridPos"]
        rows, columns = range(at["y"], at["y"] + at["h"]), range(at["x"], at["x"] + at["w"])
        cells = {(x, y) for y in rows for x in columns}
        assert not cells & occupied, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert panel["targets"], panel["title"]
        occupied |= cells
        assert panel["id"] not in ids
        ids.add(panel["id"])
    assert len(dashboard_queries()) > 40
