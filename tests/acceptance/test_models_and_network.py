"""Models, budgets, secrets and the network allow-list of a running service, on either store."""

import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.support.model_server import model_process
from tests.support.service import Api, Service, sample_repository

# `tests/contract/gateway` has the budgets on both engines.
pytestmark = pytest.mark.parametrize("shared_database_url", ["postgresql"], indirect=True)
CALL_MODEL = r"""
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


@dataclass(frozen=True)
class Organization:
    """An organization of the running service with one connected repository."""

    name: str
    service: Service
    api: Api

    @property
    def model_key(self) -> str:
        return f"sk-real-key-of-{self.name}"

    def store_model_key(self) -> None:
        self.service.admin(
            "secrets", "set", "OPENAI_API_KEY", "--org", self.name, typed=self.model_key
        )

    def run(self, agent: str) -> dict[str, Any]:
        return self.api.finish("acme/shop", agent)


@pytest.fixture(scope="module")
def website() -> Iterator[tuple[str, int]]:
    """A server on the host's own name, which does not resolve inside the sandbox."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), Website)
    Thread(target=server.serve_forever, daemon=True).start()
    yield socket.gethostname(), server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("model") / "script.json"
    reply = {"text": "hello to you", "always": True, "usage": {"input": 100, "output": 50}}
    expensive = {**reply, "when": "a dear question", "usage": {"input": 600_000, "output": 50}}
    with model_process(script, [expensive, reply]) as url:
        yield url


@pytest.fixture(scope="module")
def service(
    shared_database_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    model_url: str,
    website: tuple[str, int],
) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("models") / "data"
    data_dir.mkdir()
    host, port = website
    text = AGENTS.replace("ASKING", CALL_MODEL.replace("MAXIMUM", "1000"))
    expensive_call = CALL_MODEL.replace("MAXIMUM", "1000").replace("hello", "a dear question")
    text = text.replace("SURPRISED", expensive_call)
    text = text.replace("GREEDY", CALL_MODEL.replace("MAXIMUM", "100000"))
    text = text.replace("MODEL_URL", model_url).replace("WEB_HOST", host)
    (data_dir / "agentjobs.toml").write_text(text.replace("WEB_PORT", str(port)))
    environment = {
        "AGENTJOBS_DATABASE_URL": shared_database_url,
        "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
    }
    running = Service(data_dir, environment).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_repository(tmp_path_factory.mktemp("source") / "shop")


@pytest.fixture
def organization(service: Service, source: Path) -> Organization:
    name = f"org-{secrets.token_hex(4)}"
    service.admin("orgs", "create", name, "--plan", "enterprise")
    service.connect(source, "acme/shop", org=name)
    api = service.client(service.key("--org", name))
    api.wait_ready("acme/shop")
    return Organization(name, service, api)


def test_an_agent_calls_a_model_with_a_key_it_never_sees(
    organization: Organization, model_url: str
) -> None:
    organization.store_model_key()
    job = organization.run("asking")
    log = organization.api.log(job["job_id"])
    assert job["status"] == "completed", (job, log)
    assert job["usage"] == {
        "input_tokens": 100,
        "output_tokens": 50,
        "cost_usd": 0.0006,
        "requests": 1,
    }
    (call,) = organization.api.http.get(f"/jobs/{job['job_id']}/steps").json()["steps"]
    assert (call["kind"], call["title"], call["state"]) == ("model", "small", "succeeded")
    assert (call["detail"], call["cost_usd"]) == ("100 tokens in, 50 out", 0.0006)
    keys = [
        request["headers"]["authorization"] for request in httpx.get(f"{model_url}/requests").json()
    ]
    assert keys.count(f"Bearer {organization.model_key}") == 1
    assert organization.model_key not in log
    assert "the key is [redacted]" in log
    assert organization.model_key not in organization.api.http.get(job["pr_url"]).text


def test_a_job_without_its_secret_does_not_start_and_names_the_command_to_run(
    organization: Organization,
) -> None:
    job = organization.run("asking")
    assert job["error"]["code"] == "invalid_configuration"
    command = f"agentjobs secrets set OPENAI_API_KEY --org {organization.name}"
    assert command in job["error"]["message"]
    assert job["started_at"] is None


def test_a_request_that_may_exceed_the_jobs_budget_is_not_sent(organization: Organization) -> None:
    organization.store_model_key()
    job = organization.run("greedy")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "budget_exceeded"
    assert "$0.50" in job["error"]["message"]
    assert job["usage"] is None


def test_a_response_that_costs_more_than_the_budget_ends_the_job(
    organization: Organization,
) -> None:
    organization.store_model_key()
    job = organization.run("surprised")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "budget_exceeded"
    assert "$0.50" in job["error"]["message"]
    assert job["usage"]["cost_usd"] == 0.6005


def test_the_organizations_budget_per_day_limits_its_jobs(organization: Organization) -> None:
    organization.store_model_key()
    organization.service.admin("orgs", "set-budget", organization.name, "--per-day", "0.0105")
    assert organization.run("asking")["status"] == "completed"
    job = organization.run("asking")
    assert job["error"]["code"] == "budget_exceeded"
    assert "today" in job["error"]["message"]


def test_a_request_may_lower_the_caps_but_not_raise_them(organization: Organization) -> None:
    organization.service.admin("orgs", "set-budget", organization.name, "--per-job", "0.25")
    for cost, field in ((0.6, "the agent's"), (0.3, "the organization's")):
        body = {"repo": "acme/shop", "agent": "asking", "config_override": {"max_cost_usd": cost}}
        response = organization.api.http.post("/jobs", json=body)
        assert response.status_code == 422
        (fault,) = response.json()["error"]["details"]
        assert fault["field"] == "config_override.max_cost_usd"
        assert field in fault["message"]


def test_an_agent_reaches_only_the_hosts_of_its_allow_list(organization: Organization) -> None:
    job = organization.run("surfing")
    log = organization.api.log(job["job_id"])
    assert job["status"] == "completed", (job, log)
    page = organization.api.http.get(f"{job['pr_url']}/files").text
    assert "you asked for /through-the-proxy" in page
    assert "you asked for /transparent" in page
    assert "network: 169.254.169.254:80 is not in this agent" in log
