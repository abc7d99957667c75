"""Models, budgets, secrets and the allow-list, over HTTP on a running service of either store."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.support.service import Api, Service, connected

KEY = "sk-real-key-of-the-organization"
ASKING = r"""
cat > request.json <<END
{"model": "small", "max_tokens": MAXIMUM, "messages": [{"role": "user", "content": "hello"}]}
END
curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" -d @request.json \
  -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' \
  > answer.json || { cat answer.json; exit 1; }
env | sort
echo "the key is $OPENAI_API_KEY"
"""
AGENTS = '''
[[prices]]
model = "small"
input = 1
output = 10

[[agents]]
id = "asking"
name = "Asking"
command = ["sh", "-c", """ASKING"""]
model_api = "openai"
model_url = "MODEL_URL"
max_cost_usd = 0.5

[[agents]]
id = "greedy"
name = "Greedy"
command = ["sh", "-c", """GREEDY
echo spent; sleep 600"""]
model_api = "openai"
model_url = "MODEL_URL"
max_cost_usd = 0.5

[[agents]]
id = "surprised"
name = "Surprised"
command = ["sh", "-c", """SURPRISED"""]
model_api = "openai"
model_url = "MODEL_URL"
max_cost_usd = 0.5

[[agents]]
id = "surfing"
name = "Surfing"
network = ["WEB_HOST:WEB_PORT"]
command = ["sh", "-c", """
curl -sS http://WEB_HOST:WEB_PORT/through-the-proxy > proxied.txt
curl -sS --noproxy '*' http://WEB_HOST:WEB_PORT/transparent > transparent.txt
curl -sS -m 5 http://169.254.169.254/latest/ ; curl -sS -m 5 http://WEB_HOST:API_PORT/healthz
curl -sS -m 5 --noproxy '*' http://169.254.169.254/latest/
exit 0
"""]
'''


class Website(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"you asked for {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Not on the tests' own output."""


@pytest.fixture
def website() -> Iterator[tuple[str, int]]:
    """By the machine's own name, which inside the sandbox nobody else answers to."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), Website)
    Thread(target=server.serve_forever, daemon=True).start()
    yield socket.gethostname(), server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def model_url(tmp_path: Path) -> Iterator[str]:
    script = tmp_path / "script.json"
    answer = {"text": "hello to you", "always": True, "usage": {"input": 100, "output": 50}}
    dear = {**answer, "when": "a dear question", "usage": {"input": 600_000, "output": 50}}
    script.write_text(json.dumps([dear, answer]))
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.model_server", "--script", script, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.terminate()
    server.wait()
    server.stdout.close()


@pytest.fixture
def service(
    database_url: str, tmp_path: Path, model_url: str, website: tuple[str, int]
) -> Iterator[Service]:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    host, port = website
    text = AGENTS.replace("ASKING", ASKING.replace("MAXIMUM", "1000"))
    surprised = ASKING.replace("MAXIMUM", "1000").replace("hello", "a dear question")
    text = text.replace("SURPRISED", surprised)
    text = text.replace("GREEDY", ASKING.replace("MAXIMUM", "100000"))
    text = text.replace("MODEL_URL", model_url).replace("WEB_HOST", host)
    (data_dir / "agentjobs.toml").write_text(text.replace("WEB_PORT", str(port)))
    environment = {
        "AGENTJOBS_DATABASE_URL": database_url,
        "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
    }
    running = Service(data_dir, environment).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Api:
    return connected(service, tmp_path)


def store_key(service: Service) -> None:
    service.admin("secrets", "set", "OPENAI_API_KEY", typed=KEY)


def test_an_agent_calls_a_model_with_a_key_it_never_sees(
    service: Service, api: Api, model_url: str
) -> None:
    store_key(service)
    job = api.finish("acme/shop", "asking")
    assert job["status"] == "completed", (job, api.log(job["job_id"]))
    assert job["usage"] == {
        "input_tokens": 100,
        "output_tokens": 50,
        "cost_usd": 0.0006,
        "requests": 1,
    }
    (request,) = httpx.get(f"{model_url}/requests").json()
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    log = api.log(job["job_id"])
    assert KEY not in log
    assert "the key is [redacted]" in log
    assert KEY not in api.http.get(job["pr_url"]).text


def test_without_its_secret_the_job_says_what_to_type_and_nothing_runs(api: Api) -> None:
    job = api.finish("acme/shop", "asking")
    assert job["error"]["code"] == "invalid_configuration"
    assert "agentjobs secrets set OPENAI_API_KEY --org default" in job["error"]["message"]
    assert job["started_at"] is None


def test_what_a_request_may_cost_must_fit_the_jobs_budget(service: Service, api: Api) -> None:
    store_key(service)
    job = api.finish("acme/shop", "greedy")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "budget_exceeded"
    assert "$0.50" in job["error"]["message"]
    assert job["usage"] is None


def test_an_answer_that_costs_more_than_the_budget_ends_the_job(service: Service, api: Api) -> None:
    store_key(service)
    job = api.finish("acme/shop", "surprised")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "budget_exceeded"
    assert "$0.50" in job["error"]["message"]
    assert job["usage"]["cost_usd"] == 0.6005


def test_the_organizations_day_is_a_budget_too(service: Service, api: Api) -> None:
    store_key(service)
    service.admin("orgs", "set-budget", "default", "--per-day", "0.0105")
    assert api.finish("acme/shop", "asking")["status"] == "completed"
    job = api.finish("acme/shop", "asking")
    assert job["error"]["code"] == "budget_exceeded"
    assert "today" in job["error"]["message"]


def test_a_request_may_lower_the_caps_and_never_raise_them(service: Service, api: Api) -> None:
    service.admin("orgs", "set-budget", "default", "--per-job", "0.25")
    for cost, field in ((0.6, "the agent's"), (0.3, "the organization's")):
        body = {"repo": "acme/shop", "agent": "asking", "config_override": {"max_cost_usd": cost}}
        answer = api.http.post("/jobs", json=body)
        assert answer.status_code == 422
        (fault,) = answer.json()["error"]["details"]
        assert fault["field"] == "config_override.max_cost_usd"
        assert field in fault["message"]


def test_an_agent_reaches_the_hosts_it_may_and_no_other(service: Service, api: Api) -> None:
    job = api.finish("acme/shop", "surfing")
    log = api.log(job["job_id"])
    assert job["status"] == "completed", (job, log)
    page = api.http.get(job["pr_url"]).text
    assert "you asked for /through-the-proxy" in page
    assert "you asked for /transparent" in page
    assert "network: 169.254.169.254:80 is not in this agent" in log
