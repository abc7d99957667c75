"""mini-swe-agent: its trajectory has the outcome, because it always exits with 0."""

import re
from pathlib import Path

from agentjobs.agents.definitions import ModelAccess
from agentjobs.agents.presets.preset import Preset
from agentjobs.agents.report import read_head
from agentjobs.agents.run_watcher import RunWatcher
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, SandboxReport

TRAJECTORY = "mini-swe-agent.traj.json"
# The outcome comes before the messages, which may be many megabytes.
HEAD_BYTES = 512 * 1024

_SCRIPT = f'exec "$@" --output "${{AGENTJOBS_REPORT%/*}}/{TRAJECTORY}" --task "$AGENTJOBS_PROMPT"'
# A quote inside a JSON string is escaped, so no text can look like this key.
_EXIT_STATUS = re.compile(rb'"exit_status"\s*:\s*"([A-Za-z]*)"')


class MiniSweAgentWatcher(RunWatcher):
    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:
        status = _exit_status(run_dir)
        if status == "Submitted":
            return None
        if status:
            return self.with_last_lines(f"mini-swe-agent stopped: {status}.", report)
        return super().failure_reason(report, run_dir) or self.with_last_lines(
            "mini-swe-agent ended without an exit status.", report
        )


def _exit_status(run_dir: Path) -> str:
    head = read_head(run_dir / REPORT_DIRECTORY / TRAJECTORY, HEAD_BYTES) or b""
    match = _EXIT_STATUS.search(head)
    return match[1].decode() if match else ""


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    return (
        *("--yolo", "--exit-immediately"),
        # The gateway enforces the budget with the operator's prices.
        *("--cost-limit", "0"),
        *("--model", f"{model.api}/{model.name}"),
    )


MINI_SWE_AGENT = Preset(
    id="mini-swe-agent",
    name="mini-swe-agent",
    description="Solves an issue with shell commands alone, with mini-swe-agent.",
    executable="mini",
    # litellm needs this extra for requests with tools, although it is not documented.
    install_with="uv tool install mini-swe-agent --with 'litellm[mcp]'",
    min_version="2.0.0",
    distribution="mini-swe-agent",
    apis=("anthropic", "openai"),
    arguments=_arguments,
    script=_SCRIPT,
    environment={
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        # Half a minute: it also retries permanent errors.
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "6",
        "MSWEA_SILENT_STARTUP": "1",
        "PYTHONUNBUFFERED": "1",
        "TYPER_STANDARD_TRACEBACK": "1",
    },
    watcher=MiniSweAgentWatcher,
)
