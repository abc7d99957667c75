"""Follows one run of an agent: turns its output into a log and decides whether it succeeded.

Exit codes alone are not reliable, so presets override this.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from agentjobs_runtime.agents.steps import Step
from agentjobs_worker.sandbox.protocol import SandboxReport


class RunWatcher:
    """For any command: its output is the log, and its exit code decides.

    `on_step` receives what presets understand of the output.
    """

    on_step: Callable[[Step], None] | None = None

    def feed(self, data: bytes) -> bytes:
        """The text to log for this output."""
        return data

    def end(self) -> bytes:
        """The remaining text to log. Call it once, when the agent is dead."""
        return b""

    def steps_left_in(self, run_dir: Path) -> Iterable[Step]:  # noqa: ARG002 - presets read it
        """The steps that a dead agent left in a file. Slow: call it in a thread."""
        return ()

    def last_lines(self, report: SandboxReport) -> str:
        """The end of the log, for an error message."""
        return report.last_lines

    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:  # noqa: ARG002 - presets read it
        """None if it succeeded. Not for a run that a timeout or a limit ended."""
        if report.exit_code == 0:
            return None
        return self.with_last_lines(f"The agent ended with exit code {report.exit_code}.", report)

    def with_last_lines(self, message: str, report: SandboxReport) -> str:
        lines = self.last_lines(report)
        return f"{message} Its last lines:\n{lines}" if lines.strip() else message
