"""Metrics on their own address, as Prometheus reads them."""

from pathlib import Path

import httpx

from tests.support.model_server import model_process
from tests.support.postgres import free_port
from tests.support.promql import (
    alert_rules,
    dashboard_queries,
    documented_metrics,
    exposition,
    own_metrics,
    samples,
    unknown_names,
)
from tests.support.service import StartService, connected

# An agent that changes nothing, and one that uses a model, without which some metrics are empty.
AGENTS = r'''
[[prices]]
model = "small"
input = 1
output = 10

[[agents]]
id = "idle"
name = "Idle"
command = ["true"]

[[agents]]
id = "asking"
name = "Asking"
model_api = "openai"
model_url = "MODEL_URL"
max_cost_usd = 0.5
command = ["sh", "-c", """
curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" \
  -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' -d \
  '{"model": "small", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}' \
  > answer.json
"""]
'''
REPLY = {"text": "hello", "always": True, "usage": {"input": 9, "output": 1}}


def check_names(text: str) -> None:
    """Alert rules, dashboard and documents name metrics and labels that exist."""
    existing = exposition(text)
    queries = [rule["expr"] for rule in alert_rules()] + dashboard_queries()
    unknown = {query: unknown_names(query, existing) for query in queries}
    assert {query: names for query, names in unknown.items() if names} == {}
    assert documented_metrics() == own_metrics(existing)


def test_metrics_are_open_on_their_own_address_only(start: StartService, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with model_process(tmp_path / "script.json", [REPLY]) as model_url:
        agents = tmp_path / "agents.toml"
        agents.write_text(AGENTS.replace("MODEL_URL", model_url))
        service = start(
            AGENTJOBS_METRICS_BIND=address,
            AGENTJOBS_CONFIG=str(agents),
            AGENTJOBS_EGRESS_ALLOW="127.0.0.0/8",
        )
        api = connected(service, tmp_path)
        assert api.finish("acme/shop", "idle")["error"]["code"] == "no_changes"
        service.admin("secrets", "set", "OPENAI_API_KEY", typed="sk-real-key")
        job = api.finish("acme/shop", "asking")
        assert job["status"] == "completed", (job, api.log(job["job_id"]))
    response = httpx.get(f"http://{address}/metrics")
    assert response.status_code == 200
    check_names(response.text)
    assert samples(response.text)["agentjobs_jobs_finished_total", "no_changes", "failed"] == 1
    assert httpx.get(f"http://{address}/v1/agents").status_code == 404
    assert api.http.get(f"{service.root_url}/metrics").status_code == 404
    assert service.stop() == 0
