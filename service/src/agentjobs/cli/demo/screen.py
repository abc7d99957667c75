"""The demo's output: plain lines, or colours and a spinner on a terminal.

URLs and keys bypass Rich, which would wrap them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from agentjobs.cli.output import print_result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Screen(Protocol):
    def step(self, text: str) -> None:
        """The heading of a new step."""

    def plain(self, text: str) -> None:
        """Text to copy."""

    def status(self, text: str) -> None:
        """Progress until the next step."""

    def log(self, text: str) -> None:
        """A line of the agent's log."""

    def text(self, text: str) -> None:
        """Text to read."""

    def diff(self, text: str) -> None: ...


class PlainScreen:
    def step(self, text: str) -> None:
        print_result(f"\n{text}")

    def plain(self, text: str) -> None:
        print_result(f"  {text}")

    def status(self, text: str) -> None:
        print_result(f"  {text}")

    def log(self, text: str) -> None:
        print_result(f"  | {text}")

    def text(self, text: str) -> None:
        print_result(text)

    def diff(self, text: str) -> None:
        print_result(text)


class RichScreen:
    def __init__(self, console: "Console", spinner: "Status") -> None:
        self._console = console
        self._spinner = spinner

    def step(self, text: str) -> None:
        from rich.text import Text

        self._spinner.stop()
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left", style="cyan")

    def plain(self, text: str) -> None:
        self._spinner.stop()
        print_result(f"  {text}")

    def status(self, text: str) -> None:
        self._spinner.update(text)
        self._spinner.start()

    def log(self, text: str) -> None:
        self._console.print(f"  │ {text}", style="dim", markup=False)

    def text(self, text: str) -> None:
        self._spinner.stop()
        self._console.print(text, markup=False)

    def diff(self, text: str) -> None:
        from rich.syntax import Syntax

        self._spinner.stop()
        self._console.print(Syntax(text, "diff", theme="ansi_dark", background_color="default"))


@contextmanager
def screen_for(is_interactive: bool) -> Iterator[Screen]:
    if not is_interactive:
        yield PlainScreen()
        return
    from rich.console import Console

    console = Console(highlight=False)
    spinner = console.status("")
    try:
        yield RichScreen(console, spinner)
    finally:
        spinner.stop()
