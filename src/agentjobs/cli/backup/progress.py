"""Shows how far a long command is: a line that changes on a terminal, otherwise each step once."""

from types import TracebackType

from agentjobs.cli.live_line import can_show_line, clear_line, show_line
from agentjobs.cli.output import print_note


class Progress:
    def __init__(self) -> None:
        self._is_live = can_show_line()
        self._last_step = ""

    def show(self, text: str) -> None:
        if self._is_live:
            show_line(text)
        # Without the numbers, a step is one line in a log.
        elif (step := text.partition(":")[0]) != self._last_step:
            self._last_step = step
            print_note(step)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_live:
            clear_line()
