"""Evaluates the packaged alert rules with promtool, on metrics of real processes."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.paths import PROJECT
from tests.support.promql import ALERTS

BIN = PROJECT / ".prometheus" / "usr" / "bin"
_MINUTES = 30
_COUNTED = ("counter", "histogram")

Scrape = Mapping[str, str | None]
"""The output of each process; None if it did not respond."""


def check_firing(before: Scrape, during: Scrape, expected: set[str], directory: Path) -> None:
    """Exactly these alerts fire if the state of `during` lasts for half an hour.

    Gauges keep their values. Counters go on as from `before`, a minute earlier, to `during`.
    """
    # A busy machine delays every process.
    ignored = "" if "AgentjobsLoopDelayed" in expected else "AgentjobsLoopDelayed"
    firing = f'ALERTS{{alertstate="firing", alertname!="{ignored}"}}'
    test = {
        "interval": "1m",
        "input_series": list(_series(before, during)),
        "promql_expr_test": [
            {
                "expr": f"group by (alertname) ({firing})",
                "eval_time": f"{_MINUTES}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)
                ],
            }
        ],
    }
    # JSON is YAML.
    path = directory / "alerts_test.json"
    path.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": [test]}))
    done = subprocess.run(
        [BIN / "promtool", "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _series(before: Scrape, during: Scrape) -> Iterator[dict[str, str]]:
    for instance, text in during.items():
        target = f'job="agentjobs", instance="{instance}"'
        yield {"series": f"up{{{target}}}", "values": f"1 {int(text is not None)}+0x{_MINUTES}"}
        old, new = _samples(before[instance], target), _samples(text, target)
        for name in old | new:
            yield {"series": name, "values": _values(old.get(name), new.get(name))}


def _values(old: tuple[float, bool] | None, new: tuple[float, bool] | None) -> str:
    first = "_" if old is None else f"{old[0]:f}"
    if new is None:
        return f"{first} stale"
    value, is_counted = new
    step = value - (old[0] if old else 0) if is_counted else 0
    return f"{first} {value:f}+{step:f}x{_MINUTES}"


def _samples(text: str | None, target: str) -> dict[str, tuple[float, bool]]:
    """The value of each series, and whether it counts."""
    return {
        f"{sample.name}{{{', '.join([target, *_matchers(sample.labels)])}}}": (
            sample.value,
            family.type in _COUNTED,
        )
        for family in text_string_to_metric_families(text or "")
        for sample in family.samples
    }


def _matchers(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in labels.items()]
