"""Follows one run of an agent: turns what it prints into a log and says whether it succeeded.

An exit code alone does not tell: presets put their own reading on top of this one.
"""

from pathlib import Path

from agentjobs.sandbox.protocol import SandboxReport


class Watch:
    """For any command: its output is its log, its exit code its word."""

    def feed(self, data: bytes) -> bytes:
        """What of the agent's output goes into the log, now."""
        return data

    def end(self) -> bytes:
        """What was held back; call it once, when the agent is dead."""
        return b""

    def last_lines(self, report: SandboxReport) -> str:
        """The end of the log, for a message."""
        return report.last_lines

    def why_it_failed(self, report: SandboxReport, run_dir: Path) -> str | None:  # noqa: ARG002 - presets look there
        """None: it succeeded. Not for a run that the clock or a limit ended."""
        if report.exit_code == 0:
            return None
        return self.with_last_lines(f"The agent ended with exit code {report.exit_code}.", report)

    def with_last_lines(self, message: str, report: SandboxReport) -> str:
        lines = self.last_lines(report)
        return f"{message} Its last lines:\n{lines}" if lines.strip() else message
