"""Reads the report of an agent that completes without a pull request."""

from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.agents.report import MAX_REPORT_BYTES, read_markdown, read_result
from agentjobs_runtime.protocol.outcomes import JobFailed, JobReport, Reported
from agentjobs_runtime.safe_text import escape_unprintable
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.agents.result import result_faults
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.plan import RunPlan

_LIMIT = f"{MAX_REPORT_BYTES // 1024} KiB"
_FAULTY = "The agent's result does not fit its `result_schema`:"
# What a request may say about a pull request.
_WITHOUT_EFFECT = ("draft", "reviewers", "title")


async def read_job_report(run: RunContext, agent: Agent, run_dir: Path) -> Reported:
    """Raises JobFailed if the agent did not write what it has to."""
    # In a thread: cleaning a long text takes ten milliseconds.
    markdown = await run_in_thread(read_markdown, run_dir)
    if markdown is None:
        raise JobFailed(
            "agent_failed",
            f"The agent ended without a report. It must write one of at most {_LIMIT}, in Markdown,"
            " to the file that AGENTJOBS_REPORT names.",
        )
    result = None if agent.result_schema is None else await _result(run, agent, run_dir)
    run.log.note("the agent wrote its report")
    return Reported(JobReport(await run.log.redact_long(markdown), result))


async def warn_of_pull_options(run: RunContext, plan: RunPlan) -> None:
    names = [f"`{name}`" for name in _WITHOUT_EFFECT if name in run.job.config_override]
    if names:
        await run.warn(
            f"{', '.join(names)} had no effect: {plan.agent.id} writes a report and opens no pull"
            " request.",
        )


async def _result(run: RunContext, agent: Agent, run_dir: Path) -> str:
    content = read_result(run_dir)
    if content is None:
        raise JobFailed(
            "agent_failed",
            f"The agent ended without its result. It must write JSON of at most {_LIMIT} that fits"
            " the agent's `result_schema` to the file that AGENTJOBS_RESULT names.",
        )
    faults = await result_faults(agent.result_schema or {}, content)
    if faults:
        raise JobFailed(
            "agent_failed",
            # Names in it come from the agent, and a database accepts no NUL.
            "\n".join((_FAULTY, *map(escape_unprintable, faults))),
        )
    # Encoded again, so that no escape hides a secret.
    text = await run.log.redact_long(msgspec.json.encode(msgspec.json.decode(content)).decode())
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        message = "The agent's result contains a secret that cannot be removed from its JSON."
        raise JobFailed("agent_failed", message) from None
    return text
