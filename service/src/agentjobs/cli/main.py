"""The command `agentjobs`: parses arguments and reports errors without a traceback."""

import io
import os
import sys
from typing import Annotated

import typer

from agentjobs.cli import failures
from agentjobs.cli.commands import COMPLETION_VARIABLE, PROGRAM, LazyGroup
from agentjobs.cli.plain_values import convert_plain_values

app = typer.Typer(
    name=PROGRAM,
    cls=LazyGroup,
    help="Run coding agents in a sandbox and get pull requests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(is_requested: bool) -> None:
    if is_requested:
        from agentjobs.build_info import describe_build

        print(f"agentjobs {describe_build()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show version, commit and date, and exit.",
            callback=show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Run coding agents in a sandbox and get pull requests."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names and diffs may contain characters the terminal cannot encode.
            stream.reconfigure(errors="backslashreplace")
    convert_plain_values()
    enable_completion()
    try:
        check_encoding(sys.argv[1:])
        exit_code = app(standalone_mode=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - reports every error
        exit_code = failures.report(error)
        discard_unwritable_output()
    sys.exit(exit_code)


def enable_completion() -> None:
    """If a shell asks, so that other calls need not import it."""
    if COMPLETION_VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def check_encoding(arguments: list[str]) -> None:
    """The service and its database accept only valid UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            reason = f"{argument!r} is not valid UTF-8; is the terminal set to another encoding?"
            raise typer.BadParameter(reason) from None


def discard_unwritable_output() -> None:
    """Otherwise Python flushes again at exit, and prints a second error."""
    try:
        # None if it was closed before the process started.
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
