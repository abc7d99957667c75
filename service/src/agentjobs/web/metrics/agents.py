"""Metrics of finished jobs by agent: results, run time, tokens and cost."""

from functools import partial

import msgspec
from prometheus_client import CollectorRegistry, Counter

from agentjobs.jobs.model import Usage
from agentjobs.store.database import Row
from agentjobs_runtime.clock import SECOND_MS

_decode_usage = msgspec.json.Decoder(Usage).decode


class AgentMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self._finished = counter(
            "agentjobs_agent_jobs_finished",
            "Jobs finished since this process started, by agent and status.",
            ("agent", "status"),
        )
        self._seconds = counter(
            "agentjobs_agent_run_seconds",
            "Time from the start of the agent to the outcome, in total.",
            ("agent",),
        )
        self._tokens = counter(
            "agentjobs_agent_tokens",
            "Tokens that finished jobs sent to models (input) and received (output).",
            ("agent", "direction"),
        )
        self._cost = counter(
            "agentjobs_agent_cost_usd", "What the models of finished jobs cost.", ("agent",)
        )

    def count(self, job: Row) -> None:
        agent = job["agent"]
        self._finished.labels(agent, job["status"]).inc()
        if job["started_at"] is not None:
            run_ms = max(job["completed_at"] - job["started_at"], 0)
            self._seconds.labels(agent).inc(run_ms / SECOND_MS)
        if job["usage"] is not None:
            usage = _decode_usage(job["usage"])
            self._tokens.labels(agent, "input").inc(usage.input_tokens)
            self._tokens.labels(agent, "output").inc(usage.output_tokens)
            self._cost.labels(agent).inc(usage.cost_usd)
