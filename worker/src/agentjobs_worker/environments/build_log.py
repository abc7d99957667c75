"""The output of one build: redacted, its last part kept."""

from collections.abc import Iterable

from agentjobs_runtime.environments.records import MAX_LOG_CHARACTERS
from agentjobs_runtime.redaction.redactor import Redactor
from agentjobs_runtime.safe_text import replace_unstorable

# Redacting takes time on the event loop. Only the end of longer output is kept.
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
_END_BYTES = 64 * 1024
_LAST_LINES = 20
_LAST_CHARACTERS = 2_000


class BuildLog:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._redactor = Redactor(secrets)
        self._text = ""
        self._left = MAX_OUTPUT_BYTES
        self._end = b""
        self._is_changed = False

    @property
    def text(self) -> str:
        return self._text

    def take_change(self) -> str | None:
        """The text, or None if it is the same as at the last call."""
        is_changed, self._is_changed = self._is_changed, False
        return self._text if is_changed else None

    @property
    def last_lines(self) -> str:
        lines = self._text.rstrip().splitlines()[-_LAST_LINES:]
        return "\n".join(lines)[-_LAST_CHARACTERS:]

    def redact(self, text: str) -> str:
        """Redact other text about the build, such as an error message."""
        self.end_output()
        redacted = self._redactor.feed(text.encode("utf-8", "replace")) + self._redactor.end()
        return redacted.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        kept, rest = data[: self._left], data[self._left :]
        self._left -= len(kept)
        self._add(self._redactor.feed(kept))
        if rest:
            self._end = (self._end + rest)[-_END_BYTES:]

    def end_output(self) -> None:
        self._add(self._redactor.end())
        if self._end:
            # The first line may begin inside a secret.
            last_lines = self._end.partition(b"\n")[2]
            self._end = b""
            self._add(b"\n[agentjobs] output is left out here\n")
            self._add(self._redactor.feed(last_lines) + self._redactor.end())

    def note(self, line: str) -> None:
        """A line of the service."""
        redacted = self.redact(line)
        start = "\n" if self._text and not self._text.endswith("\n") else ""
        self._add(f"{start}[agentjobs] {redacted}\n".encode())

    def _add(self, data: bytes) -> None:
        if data:
            text = replace_unstorable(data.decode("utf-8", "replace"))
            self._text = (self._text + text)[-MAX_LOG_CHARACTERS:]
            self._is_changed = True
