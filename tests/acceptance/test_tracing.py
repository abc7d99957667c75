"""Traces of a running service, at a collector and at webhook receivers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_server import model_process
from tests.support.otlp_collector import CollectedSpan, Collector, otlp_collector
from tests.support.receiver import Receiver, receiver
from tests.support.service import Api, Service, connected, sample_repository, wait_until
from tests.support.webhook_service import add_endpoint, running

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER_SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{CALLER_SPAN}-01"
PROMPT = "a question that no trace may contain"
AGENTS = '''
[[prices]]
model = "small"
input = 1
output = 10

[[agents]]
id = "asking"
name = "Asking"
command = ["sh", "-c", """
echo '{"model": "small", "messages": [{"role": "user", "content": "PROMPT"}]}' > request.json
curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" -d @request.json \
  -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' || exit 1
echo "TRACEPARENT is $TRACEPARENT"; env
"""]
model_api = "openai"
model_url = "MODEL_URL"

[[agents]]
id = "crash"
name = "Crash"
command = ["sh", "-c", "echo TRACEPARENT is $TRACEPARENT; exit 3"]
'''
EVENTS = ("job.queued", "job.started", "job.completed", "pr.review_requested")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with otlp_collector() as collecting:
        yield collecting


@pytest.fixture(scope="module")
def hooks() -> Iterator[Receiver]:
    with receiver() as receiving:
        yield receiving


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("model") / "script.json"
    reply = {"text": "an answer", "always": True, "usage": {"input": 100, "output": 50}}
    with model_process(script, [reply]) as url:
        yield url


def service_in(directory: Path, model_url: str, environment: dict[str, str]) -> Service:
    data_dir = directory / "data"
    data_dir.mkdir(parents=True)
    agents = AGENTS.replace("PROMPT", PROMPT).replace("MODEL_URL", model_url)
    (data_dir / "agentjobs.toml").write_text(agents)
    return Service(data_dir, {"AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8", **environment})


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, collector: Collector, hooks: Receiver, model_url: str
) -> Iterator[Service]:
    environment = {
        **collector.environment,
        "OTEL_SERVICE_NAME": "jobs of acme",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20collector-key",
    }
    with running(service_in(tmp_path_factory.mktemp("traced"), model_url, environment)) as started:
        started.admin("secrets", "set", "OPENAI_API_KEY", typed="sk-real")
        add_endpoint(started, hooks.url)
        yield started


@pytest.fixture(scope="module")
def api(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Api:
    return connected(service, tmp_path_factory.mktemp("repository"))


def create(api: Api, agent: str, traceparent: str, repo: str = "acme/shop") -> str:
    body = {"repo": repo, "agent": agent}
    response = api.http.post("/jobs", json=body, headers={"traceparent": traceparent})
    assert response.status_code == 202, response.text
    job_id: str = response.json()["job_id"]
    return job_id


def test_one_trace_leads_from_the_request_to_the_pull_request_and_its_webhooks(
    api: Api, collector: Collector, hooks: Receiver
) -> None:
    job_id = create(api, "asking", TRACEPARENT)
    job = api.wait_status(job_id, "completed", "failed")
    log = api.log(job_id)
    assert job["status"] == "completed", (job, log)
    spans = collector.wait_for(TRACE_ID, "run job", *(f"deliver {event}" for event in EVENTS))

    names = {span.span_id: span.name for span in spans.values()} | {CALLER_SPAN: "the caller"}
    assert {name: names[span.parent_id] for name, span in spans.items()} == {
        "POST /v1/jobs": "the caller",
        "queue": "POST /v1/jobs",
        "run job": "POST /v1/jobs",
        "fetch": "run job",
        "environment": "run job",
        "checkout": "run job",
        "invoke_agent Asking": "run job",
        "chat small": "invoke_agent Asking",
        "commit": "run job",
        "checks": "run job",
        "push": "run job",
        "pull request": "run job",
        **{f"deliver {event}": "POST /v1/jobs" for event in EVENTS},
    }
    assert not any(span.is_error for span in spans.values())
    assert {span.service for span in spans.values()} == {"jobs of acme"}

    assert spans["POST /v1/jobs"].kind == "server"
    assert spans["POST /v1/jobs"].attributes["http.response.status_code"] == 202
    assert spans["queue"].end_ns <= spans["invoke_agent Asking"].start_ns
    run = spans["run job"].attributes
    assert (run["agentjobs.job.id"], run["agentjobs.outcome"]) == (job_id, "completed")
    assert run["agentjobs.pull_request.url"] == job["pr_url"]
    call = spans["chat small"]
    assert call.kind == "client"
    assert call.attributes["gen_ai.operation.name"] == "chat"
    assert call.attributes["gen_ai.provider.name"] == "openai"
    assert call.attributes["gen_ai.request.model"] == "small"
    assert call.attributes["gen_ai.usage.input_tokens"] == 100
    assert call.attributes["gen_ai.usage.output_tokens"] == 50

    sent = {
        f"deliver {request.event}": request.headers["traceparent"]
        for request in hooks.received
        if request.job_id == job_id
    }
    assert sent == {name: f"00-{TRACE_ID}-{spans[name].span_id}-01" for name in sent}
    assert len(sent) == len(EVENTS)
    agent = spans["invoke_agent Asking"].span_id
    assert f"TRACEPARENT is 00-{TRACE_ID}-{agent}-01" in log
    assert "OTEL" not in log
    assert PROMPT not in str(collector.spans)
    assert {headers["path"] for headers in collector.headers} == {"/v1/traces"}
    assert {headers["authorization"] for headers in collector.headers} == {"Bearer collector-key"}


def test_a_failed_job_is_an_error_in_its_own_trace(api: Api, collector: Collector) -> None:
    trace_id = f"{1:032x}"
    api.wait_status(create(api, "crash", f"00-{trace_id}-{CALLER_SPAN}-01"), "failed")
    spans = collector.wait_for(trace_id, "run job")
    assert spans["run job"].is_error
    assert spans["run job"].attributes["error.type"] == "agent_failed"
    assert spans["invoke_agent Crash"].attributes["error.type"] == "agent_failed"
    assert not spans["POST /v1/jobs"].is_error


def test_the_build_of_an_environment_is_in_the_trace_of_the_job_that_waits_for_it(
    service: Service, api: Api, collector: Collector, tmp_path: Path
) -> None:
    files = {".agentjobs.toml": '[environment]\nsetup = "true"\n'}
    service.connect(sample_repository(tmp_path / "built", files), "acme/built")
    api.wait_ready("acme/built")
    trace_id = f"{2:032x}"
    job_id = create(api, "crash", f"00-{trace_id}-{CALLER_SPAN}-01", "acme/built")
    api.wait_status(job_id, "failed")

    def spans_named(name: str) -> list[CollectedSpan]:
        spans = list(collector.spans)
        return [span for span in spans if (span.trace_id, span.name) == (trace_id, name)]

    wait_until(lambda: len(spans_named("run job")) == 2, "both runs")
    runs = spans_named("run job")
    assert [run.attributes["agentjobs.outcome"] for run in runs] == ["notready", "failed"]
    assert len(spans_named("queue")) == 2
    waiting, chosen = spans_named("environment")
    (build,) = spans_named("build environment")
    assert (waiting.parent_id, chosen.parent_id) == tuple(run.span_id for run in runs)
    assert build.parent_id == waiting.span_id
    assert not waiting.is_error
