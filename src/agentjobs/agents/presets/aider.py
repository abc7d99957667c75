"""aider, run with `--message`: it has no outcome of its own, so its words are read."""

import re
from pathlib import Path

from agentjobs.agents.definitions import ModelAccess
from agentjobs.agents.presets.preset import Preset
from agentjobs.agents.run_watcher import Watch
from agentjobs.sandbox.protocol import SandboxReport

# More than the longest beginning of a line that tells anything.
MOST_LINE_BYTES = 1024

# Its files would become part of the change: two can live elsewhere, the cache only here.
_SCRIPT = (
    '"$@" --chat-history-file "$HOME/aider.chat" --input-history-file "$HOME/aider.input"'
    ' --message "$AGENTJOBS_PROMPT"; code=$?; rm -rf .aider.tags.cache.v*; exit $code'
)
# One of them ends every request: what was paid for, or what litellm raised.
# Bounded, because a hostile line must not take long to be no match.
_ENDED = re.compile(
    rb"^(?:Tokens: .{1,40}? sent, .{1,80}? received|litellm\.(?P<failure>\w{1,80}: .{0,500}))",
    re.MULTILINE,
)


class AiderWatch(Watch):
    """Remembers how the last request ended: aider exits with 0 either way."""

    def __init__(self) -> None:
        self._line = b""
        self._failure = "it got no answer from its model"

    def feed(self, data: bytes) -> bytes:
        whole, _, rest = (self._line + data).rpartition(b"\n")
        self._look_at(whole)
        self._line = rest[:MOST_LINE_BYTES]
        return data

    def end(self) -> bytes:
        self._look_at(self._line)
        return b""

    def _look_at(self, lines: bytes) -> None:
        for ended in _ENDED.finditer(lines):
            self._failure = (ended["failure"] or b"").decode(errors="replace").strip()

    def why_it_failed(self, report: SandboxReport, run_dir: Path) -> str | None:
        failed = super().why_it_failed(report, run_dir)
        if failed is None and self._failure:
            return self.with_last_lines(f"aider stopped: {self._failure}.", report)
        return failed


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
    executable="aider",
    install_with="uv tool install --python 3.12 aider-chat",
    oldest_version="0.80.0",
    distribution="aider-chat",
    apis=("anthropic", "openai"),
    arguments=_arguments,
    script=_SCRIPT,
    environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1"},
    watch=AiderWatch,
)
