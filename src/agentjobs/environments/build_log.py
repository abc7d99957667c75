"""The output of one build: redacted, its last part kept."""

from collections.abc import Iterable

from agentjobs.environments.builds import MAX_LOG_CHARACTERS
from agentjobs.redaction.redactor import Redactor
from agentjobs.safe_text import replace_unstorable

_LAST_LINES = 20
_LAST_CHARACTERS = 2_000


class BuildLog:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._redactor = Redactor(secrets)
        self._text = ""
        self.is_changed = False

    @property
    def text(self) -> str:
        return self._text

    @property
    def last_lines(self) -> str:
        lines = self._text.rstrip().splitlines()[-_LAST_LINES:]
        return "\n".join(lines)[-_LAST_CHARACTERS:]

    def add_secrets(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            self._redactor.add(secret)

    def redact(self, text: str) -> str:
        """Redact other text about the build, such as an error message."""
        self.end_output()
        redacted = self._redactor.feed(text.encode("utf-8", "replace")) + self._redactor.end()
        return redacted.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        self._add(self._redactor.feed(data))

    def end_output(self) -> None:
        self._add(self._redactor.end())

    def note(self, line: str) -> None:
        """A line of the service."""
        self.end_output()
        start = "\n" if self._text and not self._text.endswith("\n") else ""
        self._add(f"{start}[agentjobs] {line}\n".encode())
        self.end_output()

    def _add(self, data: bytes) -> None:
        if data:
            text = replace_unstorable(data.decode("utf-8", "replace"))
            self._text = (self._text + text)[-MAX_LOG_CHARACTERS:]
            self.is_changed = True
