"""mini-swe-agent: its trajectory tells the outcome; it exits with 0 whatever happened."""

import re
from pathlib import Path

from agentjobs.agents.definitions import ModelAccess
from agentjobs.agents.presets.preset import Preset
from agentjobs.agents.report import read_head
from agentjobs.agents.run_watcher import Watch
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, SandboxReport

TRAJECTORY = "mini-swe-agent.traj.json"
# What the outcome stands in comes before the messages, which may be many megabytes.
HEAD_BYTES = 512 * 1024

_SCRIPT = f'exec "$@" --output "${{AGENTJOBS_REPORT%/*}}/{TRAJECTORY}" --task "$AGENTJOBS_PROMPT"'
# A quote inside a JSON string is escaped: no text in there can pass for this key.
_EXIT_STATUS = re.compile(rb'"exit_status"\s*:\s*"([A-Za-z]*)"')


class MiniSweAgentWatch(Watch):
    def why_it_failed(self, report: SandboxReport, run_dir: Path) -> str | None:
        status = _exit_status(run_dir)
        if status == "Submitted":
            return None
        if status:
            return self.with_last_lines(f"mini-swe-agent stopped: {status}.", report)
        return super().why_it_failed(report, run_dir) or self.with_last_lines(
            "mini-swe-agent ended without saying how.", report
        )


def _exit_status(run_dir: Path) -> str:
    head = read_head(run_dir / REPORT_DIRECTORY / TRAJECTORY, HEAD_BYTES) or b""
    found = _EXIT_STATUS.search(head)
    return found[1].decode() if found else ""


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    return (
        *("--yolo", "--exit-immediately"),
        # The gateway counts, by the operator's prices.
        *("--cost-limit", "0"),
        *("--model", f"{model.api}/{model.name}"),
    )


MINI_SWE_AGENT = Preset(
    id="mini-swe-agent",
    name="mini-swe-agent",
    executable="mini",
    # litellm needs its extra for any request with tools, and does not say so.
    install_with="uv tool install mini-swe-agent --with 'litellm[mcp]'",
    oldest_version="2.0.0",
    distribution="mini-swe-agent",
    apis=("anthropic", "openai"),
    arguments=_arguments,
    script=_SCRIPT,
    environment={
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        # Half a minute: it also tries again what was refused for good.
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "6",
        "MSWEA_SILENT_STARTUP": "1",
        "PYTHONUNBUFFERED": "1",
        "TYPER_STANDARD_TRACEBACK": "1",
    },
    watch=MiniSweAgentWatch,
)
