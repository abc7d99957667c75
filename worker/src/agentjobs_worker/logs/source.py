"""Output of a program beside the agent: bounded, redacted, in lines that begin with its name."""

from collections.abc import Callable

from agentjobs_runtime.log_decoder import LogDecoder
from agentjobs_runtime.redaction.redactor import Redactor

# A longer line becomes several.
_MAX_LINE_LENGTH = 4096


class LogSource:
    """Writes whole lines only, so that the output of several programs does not mix within one."""

    def __init__(
        self, name: str, max_bytes: int, redactor: Redactor, add_lines: Callable[[str], None]
    ) -> None:
        self._prefix = f"{name} | "
        self._left = max_bytes
        self._redactor = redactor
        self._add_lines = add_lines
        self._decoder = LogDecoder()
        self._line = ""

    def write(self, data: bytes) -> None:
        """Split anywhere; output above the limit is dropped."""
        if self._left > 0:
            self._keep(self._redactor.feed(data))

    def end(self) -> None:
        """The program has ended: write what was held back."""
        rest = self._redactor.end()
        if self._left > 0:
            self._keep(rest)
            self._add(self._decoder.end())
        if self._line:
            self._add("\n")

    def _keep(self, output: bytes) -> None:
        # Truncated after the redaction, which would miss half a secret at the end.
        output = output[: self._left]
        self._left -= len(output)
        self._add(self._decoder.feed(output))
        if self._left <= 0:
            self._add("\n" if self._line else "")
            self._add("further output is not kept\n")

    def _add(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > _MAX_LINE_LENGTH:
            lines.append(self._line)
            self._line = ""
        if lines:
            self._add_lines("".join(f"{self._prefix}{line}\n" for line in lines))
