"""The demo's output: plain lines, which can be copied."""

from agentjobs.cli.output import print_result


def step(text: str) -> None:
    """The heading of a new step."""
    print_result(f"\n{text}")


def plain(text: str) -> None:
    """A part of a step."""
    print_result(f"  {text}")


def log(text: str) -> None:
    """A line of the agent's log."""
    print_result(f"  | {text}")


def text(text: str) -> None:
    """Text to read."""
    print_result(text)
