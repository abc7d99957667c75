"""aider, run with `--message`: it reports no outcome, so its output is parsed."""

import re
from pathlib import Path

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.agents.steps import Step
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.agents.run_watcher import RunWatcher
from agentjobs_worker.sandbox.protocol import SandboxReport

# Longer than any line prefix that matters.
MAX_LINE_BYTES = 1024

# Its files would become part of the change: two can be moved, the cache must be removed.
_SCRIPT = (
    '"$@" --chat-history-file "$HOME/aider.chat" --input-history-file "$HOME/aider.input"'
    ' --message "$AGENTJOBS_PROMPT"; code=$?; rm -rf .aider.tags.cache.v*; exit $code'
)
# One of these ends every request: the cost, or the exception of litellm.
# Bounded, so that a hostile line is rejected quickly.
_ENDED = re.compile(
    rb"^(?:Tokens: .{1,40}? sent, .{1,80}? received|litellm\.(?P<failure>\w{1,80}: .{0,500}))",
    re.MULTILINE,
)
# The only step that it reports on a line of its own.
_CHANGED = re.compile(rb"^Applied edit to (.{1,500})$", re.MULTILINE)


class AiderWatcher(RunWatcher):
    """Records how the last request ended, because aider always exits with 0."""

    def __init__(self) -> None:
        self._line = b""
        self._failure = "it got no response from its model"

    def feed(self, data: bytes) -> bytes:
        whole, _, remainder = (self._line + data).rpartition(b"\n")
        self._parse(whole)
        self._line = remainder[:MAX_LINE_BYTES]
        return data

    def end(self) -> bytes:
        self._parse(self._line)
        return b""

    def _parse(self, lines: bytes) -> None:
        for ended in _ENDED.finditer(lines):
            self._failure = (ended["failure"] or b"").decode(errors="replace").strip()
        if self.on_step is not None:
            for changed in _CHANGED.finditer(lines):
                self.on_step(Step(kind="change", title=changed[1].decode(errors="replace")))

    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:
        reason = super().failure_reason(report, run_dir)
        if reason is None and self._failure:
            return self.with_last_lines(f"aider stopped: {self._failure}.", report)
        return reason


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    name = f"{model.api}/{model.name}"
    return (
        *("--model", name, "--weak-model", name, "--editor-model", name),
        *("--yes-always", "--no-pretty", "--no-stream", "--no-fancy-input"),
        *("--no-auto-commits", "--no-dirty-commits", "--no-gitignore"),
        *("--no-check-update", "--no-show-release-notes", "--analytics-disable"),
        *("--no-show-model-warnings", "--no-detect-urls", "--disable-playwright"),
        "--no-suggest-shell-commands",
    )


AIDER = Preset(
    id="aider",
    name="aider",
    description="Edits files as the prompt asks, with aider and the model of your choice.",
    executable="aider",
    install_with="uv tool install --python 3.12 aider-chat",
    min_version="0.80.0",
    distribution="aider-chat",
    apis=("anthropic", "openai"),
    arguments=_arguments,
    script=_SCRIPT,
    environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1"},
    watcher=AiderWatcher,
)
